/*
 * Backups to a directory: the first one of a branch, one of a part that changed, how long a commit takes to be in the
 * repository, what writers notice of it, and a lost machine from the command until the first row.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { query } from '../test/clients.ts'
import { peer } from '../test/clients/peers.ts'
import { envOf, neapRun, newDataDir, startNeap } from '../test/neap.ts'
import { firstPlace } from '../test/project.ts'
import { startCommits } from './load/commits.ts'
import { percentile, report } from './samples.ts'

const [mib = 500, rounds = 8] = process.argv.slice(2).map(Number)
/** A row fills a page with seven others. */
const ROWS_PER_MIB = 1_000
const ALONE_MS = 5_000
const POLL_MS = 250
const PROGRAM = { NEAP_PGBACKREST: peer('pgbackrest/pgbackrest') }

const seconds = { first: [] as number[], changed: [] as number[], saved: [] as number[], restored: [] as number[] }
const commits = { alone: [] as number[], beside: [] as number[] }
const stored: number[] = []

const elsewhere = mkdtempSync(join(tmpdir(), 'neap-elsewhere-'))
const repository = join(elsewhere, 'repository')
const dataDir = newDataDir()
const neap = await startNeap({ dataDir, env: PROGRAM })
try {
  const main = await firstPlace(neap)
  await query(neap, main.uri, 'create table written (id int)')
  await query(neap, main.uri, 'create table data (id int primary key, filler text)')
  await query(
    neap,
    main.uri,
    `insert into data select i, repeat(md5(i::text), 29) from generate_series(1, ${mib * ROWS_PER_MIB}) i`,
  )
  const passphrase = await back('init', repository)
  const writer = await startCommits(neap, main.uri)
  commits.alone.push(...(await writer.during(() => sleep(ALONE_MS))))
  commits.beside.push(...(await writer.during(async () => seconds.first.push(await timed(() => back('run'))))))
  await writer.end()
  stored.push(await newestMib(main.branch_id))
  for (let round = 0; round < rounds; round++) {
    await query(neap, main.uri, `update data set filler = filler where id <= ${mib * 10}`)
    seconds.changed.push(await timed(() => back('run')))
    stored.push(await newestMib(main.branch_id))
    seconds.saved.push(await timed(() => commitAndAwait(main)))
  }
  await neap.stop({ keep: true })
  rmSync(dataDir, { recursive: true })
  seconds.restored.push(await timed(() => restoreMachine(passphrase.trim())))
} finally {
  await neap.stop()
  rmSync(elsewhere, { recursive: true, force: true })
}

async function back(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await neapRun(['backup', ...args], envOf(dataDir, PROGRAM))
  if (code !== 0) throw new Error(`backup ${args.join(' ')}: ${stderr}`)
  return stdout
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return (performance.now() - begun) / 1_000
}

/** What the newest backup of a branch takes in the repository. */
async function newestMib(branchId: string): Promise<number> {
  const { backups } = JSON.parse(await back('list', '--json')) as {
    backups: { branch_id: string; stored_bytes: number }[]
  }
  return (backups.findLast(({ branch_id }) => branch_id === branchId)?.stored_bytes ?? NaN) / 2 ** 20
}

/** Commits a row, and waits until the repository has it. */
async function commitAndAwait({ uri, project_id, branch_id }: Awaited<ReturnType<typeof firstPlace>>): Promise<void> {
  const [row] = await query<{ at: string }>(
    neap,
    uri,
    'insert into written values (1) returning clock_timestamp()::text as at',
  )
  const at = Date.parse(row?.at ?? '')
  for (;;) {
    const params = { project_id, branch_id }
    const { saved_until } = await neap.call('GET /projects/:project_id/branches/:branch_id/backup', { params })
    if (Date.parse(saved_until ?? '') > at) return
    await sleep(POLL_MS)
  }
}

async function restoreMachine(passphrase: string): Promise<void> {
  const env = envOf(dataDir, { ...PROGRAM, NEAP_BACKUP_PASSPHRASE: passphrase })
  const { code, stderr } = await neapRun(['restore', '--from', repository], env)
  if (code !== 0) throw new Error(stderr)
  const restored = await startNeap({ dataDir, env: PROGRAM })
  try {
    await query(restored, restored.ready.connection_uri ?? '', 'select from data limit 1')
  } finally {
    await restored.stop()
  }
}

const p99 = (samples: readonly number[]) => percentile(samples, 0.99)
report(
  'backup',
  [
    `first: of a branch with ${mib} MiB of random text, and of the catalog, to a directory: neap backup run`,
    'changed: neap backup run after an update of the first hundredth of the rows',
    'saved: a commit until the repository has it',
    'restored: on an empty directory, neap restore and neap up until the first row',
  ],
  seconds,
  [
    { what: 'a commit is in the repository, longest', value: Math.max(...seconds.saved), most: 60, unit: ' s' },
    {
      what: 'bytes of a later backup / the first',
      value: percentile(stored.slice(1), 0.5) / (stored[0] ?? NaN),
      most: 0.5,
      unit: '×',
    },
    {
      what: "a writer's p99 beside the first backup",
      value: p99(commits.beside) / p99(commits.alone),
      most: 2,
      unit: '×',
    },
  ],
  's',
)
