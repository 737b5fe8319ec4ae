/* pgbench on a plain disk and in an XFS image on the same disk, buffered and with direct I/O on the disk below. */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { percentile, report } from './samples.ts'

const ROUNDS = Number(process.argv[2] ?? 6)
const SECONDS = Number(process.argv[3] ?? 8)
const SCALE = 30
const IMAGE_MIB = 4096
const NOBODY = 65534
/** Debian's, which brings pgbench along. */
const BIN = '/usr/lib/postgresql/15/bin'

const STORES = ['plain', 'buffered', 'direct'] as const
const WORK = {
  fsync: { args: [], options: '' },
  cached: { args: [], options: '-c synchronous_commit=off' },
  read: { args: ['-S'], options: '' },
} as const

// Where that is in memory, TMPDIR names a disk.
const base = mkdtempSync(join(tmpdir(), 'neap-storage-'))
chmodSync(base, 0o755)
const as = { uid: NOBODY, gid: NOBODY, cwd: '/', maxBuffer: 2 ** 26 }
const undo: (() => void)[] = []
const samples: Record<string, number[]> = {}
const servers: ChildProcess[] = []

try {
  for (const store of STORES) {
    const directory = join(base, store)
    mkdirSync(directory)
    if (store !== 'plain') mountImage(directory, store === 'direct')
    chownSync(directory, NOBODY, NOBODY)
    await startServer(directory)
    await promisify(execFile)(join(BIN, 'pgbench'), ['-i', '-q', '-s', String(SCALE), ...reach(directory)], as)
  }
  for (let round = 0; round < ROUNDS; round++)
    for (const work of Object.keys(WORK) as (keyof typeof WORK)[])
      for (const store of round % 2 === 0 ? STORES : STORES.toReversed())
        (samples[`${work} ${store}`] ??= []).push(await transactionsPerSecond(join(base, store), work))
} finally {
  await Promise.all(
    servers.map(async (server) => {
      const ended = once(server, 'exit')
      server.kill('SIGINT')
      await ended
    }),
  )
  for (const step of undo.toReversed()) step()
  rmSync(base, { recursive: true })
}

function mountImage(directory: string, isDirect: boolean): void {
  const image = `${directory}.xfs`
  execFileSync('fallocate', ['--length', `${IMAGE_MIB}MiB`, image])
  execFileSync('mkfs.xfs', ['-q', '-K', '-m', 'reflink=1', image])
  const args = ['--find', '--show', `--direct-io=${isDirect ? 'on' : 'off'}`, image]
  const device = execFileSync('losetup', args, { encoding: 'utf8' }).trim()
  undo.push(() => execFileSync('losetup', ['--detach', device]))
  execFileSync('mount', ['-t', 'xfs', '-o', 'noatime', device, directory])
  undo.push(() => execFileSync('umount', [directory]))
}

function reach(directory: string): string[] {
  return ['-h', directory, '-U', 'bench', 'postgres']
}

async function startServer(directory: string): Promise<void> {
  const pgdata = join(directory, 'pgdata')
  execFileSync(join(BIN, 'initdb'), ['-D', pgdata, '-U', 'bench', '-A', 'trust', '--data-checksums'], as)
  const settings = ['shared_buffers=1GB', 'max_wal_size=2GB', 'checkpoint_timeout=30min', 'listen_addresses=']
  const args = ['-D', pgdata, '-k', directory, ...settings.flatMap((each) => ['-c', each])]
  servers.push(spawn(join(BIN, 'postgres'), args, { ...as, stdio: 'ignore' }))
  const note = join(pgdata, 'postmaster.pid')
  while (!existsSync(note) || !readFileSync(note, 'utf8').includes('ready')) await promisify(setTimeout)(50)
}

async function transactionsPerSecond(directory: string, work: keyof typeof WORK): Promise<number> {
  await promisify(execFile)(join(BIN, 'psql'), ['-qc', 'checkpoint', ...reach(directory)], as)
  const { args, options } = WORK[work]
  const env = { ...process.env, PGOPTIONS: options }
  const all = ['-n', '-c', '4', '-j', '2', '-T', String(SECONDS), ...args, ...reach(directory)]
  const { stdout } = await promisify(execFile)(join(BIN, 'pgbench'), all, { ...as, env })
  return Number(/tps = ([\d.]+)/.exec(stdout)?.[1])
}

function ratio(work: string, store: string): number {
  return percentile(samples[`${work} ${store}`] ?? [], 0.5) / percentile(samples[`${work} plain`] ?? [], 0.5)
}

report(
  'storage',
  [
    `pgbench, scale ${SCALE}, 4 clients, ${SECONDS} s each, in turns; a checkpoint before each`,
    'fsync: TPC-B, each commit waits for the disk; cached: TPC-B with synchronous_commit off; read: select only',
    'plain: the filesystem of the temporary directory',
    'buffered, direct: XFS in an image that is reserved there, over a loop device',
  ],
  samples,
  Object.keys(WORK).flatMap((work) =>
    ['buffered', 'direct'].map((store) => ({
      what: `${work}, ${store} / plain`,
      value: ratio(work, store),
      least: 0.9,
      unit: '×',
    })),
  ),
  'transactions per second',
)
