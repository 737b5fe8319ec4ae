/* Many branches of one running parent at once, as a CI makes them, beside one asked for alone. */
import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { superuser } from '../test/admin.ts'
import { connect } from '../test/clients.ts'
import { type Neap, startNeap } from '../test/neap.ts'
import { branchOff, newProject, type Place, suspend } from '../test/project.ts'
import { percentile, report } from './samples.ts'

const [count = 48, clients = 16, rows = 60_000] = process.argv.slice(2).map(Number)
/** Children that are started, to see which WAL they keep. */
const STARTED = 4
const MIB = 2 ** 20
/** Of `blocks` in stat(2). */
const BLOCK_BYTES = 512
/** Pauses of the clients: without them the load of their requests would be measured. */
const POLL_MS = 200
const PATCH_MS = 50

const posts = { alone: [] as number[], crowd: [] as number[] }
const patches = { alone: [] as number[], crowd: [] as number[] }
const ready = { alone: [] as number[], crowd: [] as number[] }
const disk = { alone: [] as number[], crowd: [] as number[], started: [] as number[] }
const wal = { alone: [] as number[], crowd: [] as number[], started: [] as number[] }
const parentWal: number[] = []

const neap = await startNeap({ env: { NEAP_BRANCHES_LIMIT: '1000' } })
try {
  await round(await filled(neap), 'alone', 1)
  const parent = await filled(neap)
  parentWal.push(walOf(parent.branch_id))
  const children = await round(parent, 'crowd', clients)
  parentWal.push(walOf(parent.branch_id))
  for (const branch_id of children.slice(0, STARTED)) await start(parent, branch_id)
} finally {
  await neap.stop()
}

/** A project whose first branch has this many rows and a compute that runs, with a branch elsewhere in it. */
async function filled(into: Neap): Promise<Place & { elsewhere: string; close: () => Promise<void> }> {
  const place = await newProject(into)
  const elsewhere = await branchOff(into, place)
  await suspend(into, elsewhere)
  const client = await connect(into, place.uri)
  await client.query(
    `create table item as select n, repeat(md5(n::text), 6) as text from generate_series(1, ${rows}) n`,
  )
  await client.query('create unique index on item (n)')
  const admin = await superuser(into, place)
  await admin.query('checkpoint')
  await admin.end()
  return { ...place, elsewhere: elsewhere.branch_id, close: () => client.end() }
}

type Side = 'alone' | 'crowd'

/** Creates `count` branches by so many clients, each of which asks once its last one is ready; returns their ids. */
async function round(parent: Awaited<ReturnType<typeof filled>>, side: Side, atOnce: number): Promise<string[]> {
  const children: string[] = []
  let asked = 0
  let isOver = false
  const elsewhere = (async () => {
    while (!isOver) {
      patches[side].push(await milliseconds(() => rename(parent, patches[side].length)))
      await sleep(PATCH_MS)
    }
  })()
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (asked++ < count) {
        const begun = performance.now()
        const { branch, operations } = await neap.call('POST /projects/:project_id/branches', {
          params: { project_id: parent.project_id },
          body: { branch: { parent_id: parent.branch_id } },
        })
        posts[side].push(performance.now() - begun)
        await ended(operations)
        ready[side].push(performance.now() - begun)
        children.push(branch.id)
      }
    }),
  )
  isOver = true
  await elsewhere
  for (const id of children) {
    disk[side].push(bytesOf(id) / MIB)
    wal[side].push(walOf(id))
  }
  await parent.close()
  return children
}

/** Waits until operations have ended, as clients of the API do that poll. */
async function ended(operations: readonly { id: string; project_id: string }[]): Promise<void> {
  for (const { id: operation_id, project_id } of operations) {
    for (;;) {
      const params = { project_id, operation_id }
      const { operation } = await neap.call('GET /projects/:project_id/operations/:operation_id', { params })
      if (operation.status === 'finished') break
      if (operation.error) throw new Error(`${operation.action}: ${operation.error}`)
      await sleep(POLL_MS)
    }
  }
}

async function rename({ project_id, elsewhere }: { project_id: string; elsewhere: string }, turn: number) {
  await neap.call('PATCH /projects/:project_id/branches/:branch_id', {
    params: { project_id, branch_id: elsewhere },
    body: { branch: { name: `elsewhere-${turn}` } },
  })
}

/** Starts a branch's compute for the first time, lets it make a checkpoint, and measures its files after its stop. */
async function start(parent: Place, branch_id: string): Promise<void> {
  const { endpoint, operations } = await neap.call('POST /projects/:project_id/endpoints', {
    params: { project_id: parent.project_id },
    body: { endpoint: { type: 'read_write', branch_id } },
  })
  await neap.ended(operations)
  const place = { ...parent, branch_id, endpoint_id: endpoint.id }
  const admin = await superuser(neap, place)
  await admin.query('checkpoint')
  await admin.end()
  await suspend(neap, place)
  disk.started.push(bytesOf(branch_id) / MIB)
  wal.started.push(walOf(branch_id))
}

function bytesOf(id: string, below = ''): number {
  const path = join(neap.ready.data_dir, 'branches', id, below)
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const sizes = files.map(({ parentPath, name }) => lstatSync(join(parentPath, name), { throwIfNoEntry: false }))
  return sum(sizes.map((found) => (found?.blocks ?? 0) * BLOCK_BYTES))
}

function walOf(id: string): number {
  return bytesOf(id, 'pgdata/pg_wal') / MIB
}

function sum(samples: readonly number[]): number {
  return samples.reduce((total, each) => total + each, 0)
}

async function milliseconds(work: () => Promise<void>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

const p95 = (samples: readonly number[]): number => percentile(samples, 0.95)
const [walBefore = 0, walAfter = 0] = parentWal

report(
  'crowd',
  [
    `${count} branches of a running compute, over the API's socket: one after the other, and by ${clients} clients at`,
    'once, each of which asks for its next once the last is ready; PATCH: of another branch of the project, meanwhile',
    'MiB: the blocks of the files of a branch once it is ready, before it ever ran',
  ],
  {
    'POST, alone': posts.alone,
    'POST, crowd': posts.crowd,
    'PATCH elsewhere, alone': patches.alone,
    'PATCH elsewhere, crowd': patches.crowd,
    'POST to ready, alone': ready.alone,
    'POST to ready, crowd': ready.crowd,
    'MiB of a child, alone': disk.alone,
    'MiB of a child, crowd': disk.crowd,
    'MiB of its WAL, alone': wal.alone,
    'MiB of its WAL, crowd': wal.crowd,
    'MiB after its first run': disk.started,
    'MiB of its WAL then': wal.started,
    "MiB of the parent's WAL": parentWal,
  },
  [
    { what: 'POST p95 in a crowd', value: p95(posts.crowd), most: 100, unit: ' ms' },
    { what: 'POST p95, crowd / alone', value: p95(posts.crowd) / p95(posts.alone), most: 3, unit: '×' },
    { what: 'PATCH elsewhere p95 in a crowd', value: p95(patches.crowd), most: 100, unit: ' ms' },
    { what: 'PATCH elsewhere p95, crowd / alone', value: p95(patches.crowd) / p95(patches.alone), most: 3, unit: '×' },
    { what: 'bytes of the children, crowd / alone', value: sum(disk.crowd) / sum(disk.alone), most: 1.1, unit: '×' },
    { what: "growth of the parent's WAL", value: walAfter - walBefore, most: 32, unit: ' MiB' },
  ],
)
