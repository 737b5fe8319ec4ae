import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { notedRecovery } from '../../storage/replay.ts'
import { redoPosition, writtenPosition } from '../../postgres/recovery_position.ts'
import { segmentPosition } from '../../postgres/wal.ts'

const MIB = 2 ** 20

/**
 * What a server that does not accept connections yet is doing, and how far it is, for its owner: the text changes as
 * it advances. Postgres shows both in the titles of its processes. Undefined when the kernel does not show them.
 */
export function readRecovery(home: string, postmaster: number): string | undefined {
  const titles = childrenOf(postmaster).map((pid) => ({ pid, title: readProc(pid, 'cmdline').replaceAll('\0', ' ') }))
  const startup = titles.find(({ title }) => /^postgres: (\S+: )?startup\b/.test(title))
  if (!startup) return undefined
  const writer = titles.find(({ title }) => /checkpointer performing end-of-recovery checkpoint/.test(title))
  const does = notedRecovery(home) ? 'goes to the moment' : 'recovers after a crash'
  if (writer) return `Postgres ${does}: all is replayed, ${mib(writtenBytes(writer.pid))} MiB are written to disk`
  const segment = /\brecovering ([0-9A-F]{24})/.exec(startup.title)?.[1]
  if (segment === undefined) return `Postgres is starting: ${mib(readBytes(startup.pid))} MiB are read`
  const pgdata = join(home, 'pgdata')
  const [position, end] = [segmentPosition(segment), writtenPosition(pgdata, segment)]
  const begin = Math.min(redoPosition(pgdata) ?? position, position)
  return `Postgres ${does}: ${mib(position - begin)} of ${mib(end - begin)} MiB of its log are replayed`
}

const mib = (bytes: number): number => Math.round(bytes / MIB)

const childrenOf = (pid: number): number[] => {
  const text = readProc(pid, `task/${pid}/children`)
  return text.split(' ').filter(Boolean).map(Number)
}

/** The bytes that a process has read, from the cache too, and those it has caused to be written (proc_pid_io(5)). */
const readBytes = (pid: number): number => ioCounter(pid, 'rchar')
const writtenBytes = (pid: number): number => ioCounter(pid, 'wchar')

const ioCounter = (pid: number, name: string): number =>
  Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(readProc(pid, 'io'))?.[1] ?? 0)

/** Empty for a process that has ended, and on systems without /proc. */
function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8').trim()
  } catch {
    return ''
  }
}
