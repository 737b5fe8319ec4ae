/*
 * From the request for a branch with an endpoint to its first row: of a parent at rest, of a running one, and of one
 * after random updates; beside a bare clone of the same files with a bare start. Commits in the parent meanwhile.
 *
 *   bench/branch.ts [ROUNDS] [MIB] [AGED_SECONDS]        as root, in an image; otherwise on the store that there is;
 *                                                        without an aged parent for 0 seconds
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { query } from '../test/clients.ts'
import type { Neap } from '../test/neap.ts'
import { firstPlace, type Place, suspend } from '../test/project.ts'
import { bareStart } from './load/bare_start.ts'
import { startWithClones } from './load/clones.ts'
import { startCommits } from './load/commits.ts'
import { percentile, report } from './samples.ts'

const [rounds = 10, mib = 10, agedSeconds = 60] = process.argv.slice(2).map(Number)
/** The limit of the wait for a clone that is made ahead. */
const MAX_WAIT_MS = 60_000
/** Of updates between two branches of a parent that runs, and the time within which a base that is due is begun. */
const [MORE_SECONDS, BASE_MS] = [10, 15_000]
/** Of commits beside no clone. */
const ALONE_MS = 1_000
/** Of one row, of which a page has eight. */
const ROW_BYTES = 1_000

const bare: number[] = []
const rest: number[] = []
const running: number[] = []
const aged: number[] = []
const [unprepared, prepared]: [number[], number[]] = [[], []]
const agedRunning: number[] = []
const ahead: number[] = []
const bareAged: number[] = []
const alone: number[] = []
const beside: number[] = []
const besideBare: number[] = []

interface Made {
  /** Milliseconds until its first row. */
  readonly ms: number
  readonly remove: () => Promise<void>
}

/** Keeps a sample, and tells it: a run lasts long, and may fail near its end. */
function keep(samples: number[], name: string, ms: number): void {
  samples.push(ms)
  console.error(`${name}: ${ms.toFixed(0)} ms`)
}

const neap = await startWithClones(mib)
const { data_dir: dataDir } = neap.ready
let mode = ''
try {
  mode = (await neap.call('GET /status', {})).hosts[0]?.clone_mode ?? ''
  const place = await firstPlace(neap)
  await fill(neap, place)
  const { branch: still } = await makeBranch(neap, place)
  await suspend(neap, still)
  for (let round = 0; round < rounds; round++) {
    await suspend(neap, place)
    keep(bare, 'bare', await msOf(bareClone(place)))
    keep(rest, 'rest', await msOf(makeBranch(neap, place)))
    await whileCommitting(place, still)
  }
  if (agedSeconds > 0) await age(neap, place, agedSeconds)
  for (let round = 0; round < rounds && agedSeconds > 0; round++) {
    await suspend(neap, place)
    // As many are made ahead as there were branches: after the first round one for each of these two.
    const atOnce = round === 0 ? unprepared : prepared
    keep(ahead, 'made ahead', await spareThere(() => homeOf(place), round === 0 ? 'spare' : 'spare.2'))
    keep(aged, 'aged', await keptBranch(place))
    keep(atOnce, 'aged, at once', await keptBranch(place))
    keep(bareAged, 'bare, aged', await msOf(bareClone(place)))
    await age(neap, place, MORE_SECONDS)
    await lastBaseReady(place)
    keep(agedRunning, 'aged, running', await msOf(makeBranch(neap, place)))
  }
} finally {
  await neap.stop()
}

async function fill(at: Neap, { uri }: Place): Promise<void> {
  await query(at, uri, 'create table data (id int primary key, filler text)')
  await query(at, uri, 'create table written (id int)')
  // Steps whose WAL is removed in between.
  const rows = Math.ceil((mib * 2 ** 20) / ROW_BYTES)
  for (let from = 1; from <= rows; from += 100_000)
    await query(
      at,
      uri,
      `insert into data select i, repeat(md5(i::text), 29)
         from generate_series(${from}, ${Math.min(rows, from + 99_999)}) i`,
    )
  await query(at, uri, 'vacuum analyze data')
}

/** Updates random rows for a while, each of which writes a page anew. */
async function age(at: Neap, { uri }: Place, forSeconds: number): Promise<void> {
  const until = performance.now() + forSeconds * 1000
  while (performance.now() < until)
    await query(
      at,
      uri,
      `update data set filler = filler where id in (
         select (random() * (select max(id) from data))::int from generate_series(1, 2000))`,
    )
}

/** Clones the files of a parent at rest, and starts a bare Postgres on them. */
async function bareClone({ branch_id }: Place): Promise<Made> {
  const [home, clone] = ['', '-bare'].map((end) => join(dataDir, 'branches', branch_id + end)) as [string, string]
  // Its history stays where it is.
  const parts = ['pgdata', 'conf'].map((name) => join(home, name))
  const begun = performance.now()
  mkdirSync(clone)
  chmodSync(clone, 0o711)
  execFileSync('cp', ['-a', '--reflink=auto', ...parts, clone])
  execFileSync('sync', ['-f', clone])
  const cloned = performance.now() - begun
  const server = await bareStart(dataDir, `${branch_id}-bare`)
  const remove = async () => {
    await server.stop()
    rmSync(clone, { recursive: true })
  }
  return { ms: cloned + server.ms, remove }
}

function homeOf({ branch_id }: Place): string {
  return join(dataDir, 'branches', branch_id)
}

function latestBaseOf(place: Place): string {
  const bases = join(homeOf(place), 'bases')
  const numbers = existsSync(bases) ? readdirSync(bases).map(Number) : []
  return join(bases, String(Math.max(0, ...numbers.filter(Number.isInteger))))
}

/** Waits until Neap has made a clone of a directory ahead, which it does where clones take long. */
async function spareThere(directory: () => string, name = 'spare'): Promise<number> {
  const begun = performance.now()
  const isThere = () => existsSync(join(directory(), name, 'pgdata/global/pg_control'))
  while (mode !== 'copy' && !isThere() && performance.now() - begun < MAX_WAIT_MS) await sleep(100)
  return performance.now() - begun
}

/** Waits until all bases that are due are made, and a clone of the last one ahead. */
async function lastBaseReady(place: Place): Promise<void> {
  const making = join(homeOf(place), 'base.making')
  for (let last = ''; last !== latestBaseOf(place) || existsSync(making);) {
    last = latestBaseOf(place)
    await sleep(BASE_MS)
    await spareThere(() => latestBaseOf(place))
  }
}

/** The time until a first row, after which all is removed that was made for it. */
async function msOf(making: Promise<Made>): Promise<number> {
  const { ms, remove } = await making
  await remove()
  return ms
}

async function keptBranch(place: Place): Promise<number> {
  const { ms, branch } = await makeBranch(neap, place)
  await suspend(neap, branch)
  return ms
}

/** Makes a branch with an endpoint, and measures the time until its first row. */
async function makeBranch(at: Neap, place: Place): Promise<Made & { readonly branch: Place }> {
  const params = { project_id: place.project_id }
  const begun = performance.now()
  const { branch, endpoints } = await at.call('POST /projects/:project_id/branches', {
    params,
    body: { branch: { parent_id: place.branch_id }, endpoints: [{ type: 'read_write' }] },
  })
  const endpoint_id = endpoints[0]?.id ?? ''
  await query(at, place.uri.replace(place.endpoint_id, endpoint_id), 'select 1 from data limit 1')
  const ms = performance.now() - begun
  return {
    ms,
    branch: { ...place, branch_id: branch.id, endpoint_id },
    remove: async () => {
      const { operations } = await at.call('DELETE /projects/:project_id/branches/:branch_id', {
        params: { ...params, branch_id: branch.id },
        query: { hard_delete: true },
      })
      await at.ended(operations)
    },
  }
}

/** Commits rows in the parent: alone, beside a branch that is made of it, and beside a bare clone of one at rest. */
async function whileCommitting(place: Place, still: Place): Promise<void> {
  const commits = await startCommits(neap, place.uri)
  const during = async (samples: number[], making: () => Promise<Made>) => {
    let made: Made | undefined
    alone.push(...(await commits.during(() => sleep(ALONE_MS))))
    samples.push(...(await commits.during(async () => (made = await making()))))
    await made?.remove()
    return made?.ms ?? NaN
  }
  keep(running, 'running', await during(beside, () => makeBranch(neap, place)))
  await during(besideBare, () => bareClone(still))
  await commits.end()
}

const median = (samples: readonly number[]) => percentile(samples, 0.5)
const agedMarks = [
  { what: 'aged / rest, medians', value: median(aged) / median(rest), most: 1.5, unit: '×' },
  { what: 'aged, running / running, medians', value: median(agedRunning) / median(running), most: 1.5, unit: '×' },
  { what: 'aged, running p50', value: median(agedRunning), most: 1_000, unit: ' ms' },
]
report(
  'branch',
  [
    `rest, running, aged: POST of a branch with an endpoint, of ${mib} MiB of data, to its first row`,
    `aged: after ${agedSeconds} s of updates of random rows, suspended, once a clone was made ahead`,
    'at once: just after that; the first time without a clone made ahead, then with a second one',
    `aged, running: of a compute that runs, ${MORE_SECONDS} s of updates later, once the bases that were due are made,`,
    'and a clone of the last one ahead',
    'made ahead: from the end of the suspend to that clone, a minute at most',
    'bare: cp --reflink=auto of the same files, synced, and a start of the same Postgres on them to its first row',
    'alone, beside: a commit of one row in the parent, without and while a branch is made until its first row;',
    'beside bare: while a branch at rest is cloned and started as for bare, by no Neap',
    `branches are made by ${mode}`,
  ],
  {
    bare,
    rest,
    running,
    bareAged,
    'made ahead': ahead,
    aged,
    'aged, at once, first': unprepared,
    'aged, at once': prepared,
    'aged, running': agedRunning,
    alone,
    beside,
    'beside bare': besideBare,
  },
  [
    { what: 'rest / bare, medians', value: median(rest) / median(bare), most: 2, unit: '×' },
    { what: 'rest p50', value: median(rest), most: mib <= 10 ? 150 : 1_000, unit: ' ms' },
    { what: 'running p50', value: median(running), most: mib <= 10 ? 150 : 1_000, unit: ' ms' },
    { what: 'beside / alone, p99', value: percentile(beside, 0.99) / percentile(alone, 0.99), most: 2, unit: '×' },
    { what: 'longest commit beside a branch', value: Math.max(...beside), most: 50, unit: ' ms' },
    ...(agedSeconds > 0 ? agedMarks : []),
  ],
)
