import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { pino } from 'pino'
import { deleteBranchData, type Branch } from '../../src/catalog/branch.ts'
import { setNoted } from '../../src/catalog/branch_config.ts'
import type { Catalog, Db } from '../../src/catalog/catalog.ts'
import { ensureDefaultAccount } from '../../src/catalog/account.ts'
import { setActive } from '../../src/catalog/compute.ts'
import { type Endpoint, findEndpointEver } from '../../src/catalog/endpoint.ts'
import { deleteProject as deleteProjectRows, type Project } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import type { CommandContext } from '../../src/commands/command.ts'
import { deleteBranch } from '../../src/commands/delete_branch.ts'
import { deleteEndpoint } from '../../src/commands/delete_endpoint.ts'
import { deleteProject } from '../../src/commands/delete_project.ts'
import { localComputes } from '../../src/compute/process/local_computes.ts'
import { loadConfig } from '../../src/config.ts'
import type { WorkerContext } from '../../src/context.ts'
import { type Due, end, lockForStep } from '../../src/engine/claim.ts'
import { reconcile, recordReplaced } from '../../src/loops/adoption.ts'
import { suspendActive } from '../../src/loops/suspend_active.ts'
import { queueStart, requestStart } from '../../src/operations/start_compute.ts'
import { queueSuspend, suspendCompute } from '../../src/operations/suspend_compute.ts'
import { SECRETS } from '../local_host.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newBranch, newEndpoint, newProject } from './operations.ts'

// The order of row locks: project, branch, endpoint. Where all keep it, no two of them can deadlock.
let catalogs: Catalogs
let shared: { readonly catalog: Catalog; readonly observer: Catalog }
let release: () => void
let released: Promise<void>
before(async () => {
  catalogs = await startCatalogs()
  const { promise: isOver, resolve } = Promise.withResolvers<void>()
  release = resolve
  await new Promise<void>((ready) => {
    released = catalogs.with(async ({ catalog, open }) => {
      shared = { catalog, observer: open() }
      ready()
      await isOver
    })
  })
})
after(async () => {
  release()
  await released
  await catalogs.close()
})

type Queued = 'start' | 'suspend' | undefined
const QUEUED: readonly Queued[] = [undefined, 'start', 'suspend']
const LEVELS = ['project', 'branch', 'endpoint'] as const

interface Place {
  readonly project: Project
  readonly branch: Branch
  readonly endpoint: Endpoint
  readonly ids: Readonly<Record<(typeof LEVELS)[number], string>>
}

interface Premises extends Place {
  readonly catalog: Catalog
  readonly worker: WorkerContext
  readonly command: (db: Db) => CommandContext
}

/** Loops, commands and ends of operations, each as one of its transactions. */
const ACTORS: Readonly<Record<string, (on: Premises) => Promise<unknown>>> = {
  'delete project': ({ catalog, command, project }) =>
    catalog.transaction((tx) => deleteProject(command(tx), project.id)),
  'delete branch': ({ catalog, command, project, branch }) =>
    catalog.transaction((tx) => deleteBranch(command(tx), { project_id: project.id, branch_id: branch.id })),
  'delete endpoint': ({ catalog, command, project, endpoint }) =>
    catalog.transaction((tx) => deleteEndpoint(command(tx), { project_id: project.id, endpoint_id: endpoint.id })),
  'rows of a removed project': ({ catalog, project }) => catalog.transaction((tx) => deleteProjectRows(tx, project.id)),
  'rows of a removed branch': ({ catalog, branch }) => catalog.transaction((tx) => deleteBranchData(tx, branch.id)),
  'request a start': ({ catalog, endpoint }) => requestStart(catalog, endpoint, undefined),
  'record a crash': ({ worker, endpoint }) => reconcile(worker, endpoint, endpoint.compute_id ?? ''),
  'record a crash in a deleted project': ({ worker, endpoint }) =>
    reconcile(worker, endpoint, endpoint.compute_id ?? ''),
  'adopt a compute': ({ worker, endpoint }) => reconcile(worker, endpoint),
  'record a replaced compute': ({ worker, endpoint }) => recordReplaced(worker, endpoint, endpoint.compute_id ?? ''),
  'suspend for a quota': ({ worker, endpoint }) => suspendActive(worker, endpoint, 'of a test'),
  'end a start': ({ catalog, branch, endpoint, project }) =>
    catalog.transaction(async (tx) => {
      const operation = await lockBegun(tx, project)
      await setNoted(tx, branch.id, false)
      await setActive(tx, endpoint.id, branch.id, computeOf(`another ${branch.id}`))
      if (operation) end(tx, operation.id, 'finished', null)
    }),
  'end a suspend': ({ catalog, worker, project }) =>
    catalog.transaction(async (tx) => {
      const operation = await lockBegun(tx, project)
      if (!operation) return
      await suspendCompute.steps['endpoint_idle']?.(operation as never, worker, tx)
      end(tx, operation.id, 'finished', null)
    }),
}

/** The operation of a project that has begun, locked as for a step. */
async function lockBegun(tx: Db, project: Project): Promise<Due | undefined> {
  const operation = await tx.row<Due>(
    sql`select * from operation where project_id = ${project.id} and status = 'running'`,
  )
  return operation && (await lockForStep(tx, operation)) === 'locked' ? operation : undefined
}

const computeOf = (id: string) => ({
  id,
  hostId: HOST,
  host: '/nowhere',
  port: 1,
  store: 'br-a',
  startedAt: new Date(),
})

/** The rows that these actors expect: the queued operation has begun for one that ends it. */
async function premises(catalog: Catalog, queued: Queued, ...actors: readonly string[]): Promise<Premises> {
  const account = await ensureDefaultAccount(catalog, 'paid')
  const project = await newProject(catalog)
  const branch = await newBranch(catalog, project)
  const { id } = await newEndpoint(catalog, branch)
  await setActive(catalog, id, branch.id, computeOf(`compute ${id}`))
  const endpoint = (await findEndpointEver(catalog, id)) as Endpoint
  if (queued === 'start') await catalog.transaction((tx) => queueStart(tx, endpoint, 'request'))
  if (queued === 'suspend') await catalog.transaction((tx) => queueSuspend(tx, endpoint, 'request'))
  if (actors.some((name) => /deleted|removed/.test(name))) await deleteProjectRows(catalog, project.id)
  if (actors.some((name) => name.startsWith('end')))
    await catalog.rows(sql`
      update operation set status = 'running', generation = 1, started_at = now() where project_id = ${project.id}`)
  const options = {
    id: HOST,
    dataDir: '/nonexistent',
    runtimeDir: '/nonexistent',
    secrets: SECRETS,
    log: () => undefined,
  }
  const config = loadConfig({}, { NEAP_DATA_DIR: '/nonexistent' })
  const context = { catalog, config, log: pino({ level: 'silent' }) }
  const worker = { ...context, computes: localComputes(options), hostId: HOST } as unknown as WorkerContext
  const command = (db: Db) => ({ ...context, db, account }) as unknown as CommandContext
  const ids = { project: project.id, branch: branch.id, endpoint: endpoint.id }
  return { catalog, worker, command, project, branch, endpoint, ids }
}

const rowOf = (level: (typeof LEVELS)[number], id: string) =>
  level === 'project'
    ? sql`select from project where id = ${id}`
    : level === 'branch'
      ? sql`select from branch where id = ${id}`
      : sql`select from endpoint where id = ${id}`

/** Whether another transaction has locked a row. */
async function isLocked(db: Db, level: (typeof LEVELS)[number], id: string): Promise<boolean> {
  const found = await db.rows(sql`${rowOf(level, id)} for no key update skip locked`)
  const [exists] = await db.rows(rowOf(level, id))
  return exists !== undefined && found.length === 0
}

for (const [name, act] of Object.entries(ACTORS))
  test(`${name} locks project, branch, endpoint in this order`, async () => {
    for (const queued of QUEUED)
      for (const [position, level] of LEVELS.entries()) {
        const on = await premises(shared.catalog, queued, name)
        const blocker = await shared.observer.session()
        await blocker.rows(sql`begin`)
        const pid = (await blocker.row<{ pid: number }>(sql`select pg_backend_pid() as pid`))?.pid
        await blocker.rows(sql`${rowOf(level, on.ids[level])} for no key update`)
        let isOver = false
        // A refused command counts as well: it has taken its locks until then.
        const acting = Promise.resolve(act(on))
          .catch(() => undefined)
          .then(() => (isOver = true))
        const waits = sql`select from pg_stat_activity where ${pid}::int = any (pg_blocking_pids(pid))`
        while (!isOver && (await shared.observer.rows(waits)).length === 0);
        const held = []
        for (const later of isOver ? [] : LEVELS.slice(position + 1))
          if (await isLocked(shared.observer, later, on.ids[later])) held.push(later)
        await blocker.rows(sql`rollback`)
        await blocker.end()
        await acting
        assert.deepEqual(held, [], `locked before ${level}`)
      }
  })

test('any two of them end when they run against each other', async () => {
  const names = Object.keys(ACTORS)
  for (const [index, first] of names.entries())
    for (const second of names.slice(index)) {
      const on = await premises(shared.catalog, 'start', first, second)
      const through = { ...on, catalog: shared.observer, worker: { ...on.worker, catalog: shared.observer } }
      const ended = await Promise.allSettled([ACTORS[first]?.(on), ACTORS[second]?.(through)])
      for (const each of ended)
        if (each.status === 'rejected') assert.doesNotMatch(String(each.reason), /deadlock/, `${first} and ${second}`)
    }
})
