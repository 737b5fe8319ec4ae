import { closeSync, constants, fstatSync, mkdirSync, openSync, readSync, rmSync } from 'node:fs'
import { copyFile, readdir, rename, stat, truncate } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const ROTATE_BYTES = 10 * 2 ** 20
const KEPT = 3

/** Opens a log to append to. It belongs to Neap and lies where no compute may write, so no link of a compute's can redirect it. */
export function openLog(path: string): { file: number; size: number } {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
  const file = openSync(path, flags, 0o600)
  return { file, size: fstatSync(file).size }
}

/** Forgets the log of a home that turned out to be gone. */
export function dropLog(path: string): void {
  rmSync(dirname(path), { recursive: true, force: true })
}

/** What a log says of a failure: the last lines since `from` that are not routine, without time and pid, in one line. */
export function complaintIn(path: string, from: number): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const start = Math.max(from, fstatSync(file).size - 16_384)
    const buffer = Buffer.alloc(16_384)
    const text = buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, start))
    const lines = text.split('\n').map(withoutPrefix)
    const telling = lines.filter((line) => line !== '' && !ROUTINE.test(line))
    return telling.slice(-3).join('; ')
  } finally {
    closeSync(file)
  }
}

const ROUTINE =
  /^LOG: +(starting |listening |database system |received |aborting |shutting |redo |checkpoint |entering |consistent |invalid record|all server |archive|restored|end-of-recovery|last completed)/

function withoutPrefix(line: string): string {
  return line.replace(/^\d{4}-\d\d-\d\d [\d:.]+ \w+ \[\d+\] (?:\S+@\S+ )?/, '').trim()
}

/**
 * Rotates every `postgres.log` under a directory of logs that has grown over 10 MiB and keeps three. Copied and emptied rather than
 * renamed, since a server keeps its own file open; a line written in between is lost.
 */
export async function rotateLogs(directory: string): Promise<void> {
  for (const id of await readdir(directory)) {
    const log = join(directory, id, 'postgres.log')
    const size = await stat(log).then(
      (found) => found.size,
      () => 0,
    )
    if (size <= ROTATE_BYTES) continue
    for (let number = KEPT - 1; number >= 1; number--) {
      await rename(`${log}.${number}`, `${log}.${number + 1}`).catch(() => undefined)
    }
    await copyFile(log, `${log}.1`)
    await truncate(log)
  }
}
