import { once, type EventEmitter } from 'node:events'
import { type Account, ensureDefaultAccount } from '../../src/catalog/account.ts'
import { type Branch, insertBranch } from '../../src/catalog/branch.ts'
import type { Catalog, Db } from '../../src/catalog/catalog.ts'
import { setIdle } from '../../src/catalog/compute.ts'
import { type Endpoint, findEndpoint, insertEndpoint } from '../../src/catalog/endpoint.ts'
import { insertOperation, type NewOperation, type Operation } from '../../src/catalog/operation.ts'
import { insertProject, type Project } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import { claim, type Due, end, notifyCompleted, type Vacancy } from '../../src/engine/claim.ts'
import { newBranchId, newEndpointId, newProjectId } from '../../src/ids.ts'

/** A row of `operation` with the columns that only the engine reads. */
export type OperationRow = Operation &
  Pick<Due, 'attempts' | 'generation' | 'step'> & { readonly deadline_at: string | null }

/** @param of the default account unless given */
export async function newProject(db: Db, of?: Account): Promise<Project> {
  const account = of ?? (await ensureDefaultAccount(db, 'paid'))
  const id = newProjectId()
  return insertProject(db, {
    id,
    account_id: account.id,
    name: id,
    region_id: 'local',
    pg_version: 18,
    settings: {},
    default_endpoint_settings: {},
    history_retention_seconds: 0,
  })
}

export async function newBranch(db: Db, project: Project, parent?: Branch): Promise<Branch> {
  const id = newBranchId()
  return insertBranch(db, {
    id,
    account_id: project.account_id,
    project_id: project.id,
    parent_id: parent?.id ?? null,
    name: id,
    is_default: false,
    protected: false,
  })
}

/** An idle endpoint. */
export async function newEndpoint(db: Db, { id: branch_id, account_id, project_id }: Branch): Promise<Endpoint> {
  const size = { min_cu: 0.25, max_cu: 0.25, suspend_timeout_seconds: 0, settings: {}, disabled: false, name: null }
  const endpoint = await insertEndpoint(db, { id: newEndpointId(), branch_id, account_id, project_id, ...size })
  await setIdle(db, endpoint.id, 'request')
  return (await findEndpoint(db, endpoint.id)) as Endpoint
}

/** Queues an operation of a fictitious action with the given locks. */
export function queue(db: Db, project: Project, operation: Partial<NewOperation> = {}): Promise<Operation> {
  return insertOperation(db, {
    account_id: project.account_id,
    project_id: project.id,
    action: 'toil',
    input: {},
    step: 'begun',
    excludes: [],
    shares: [project.id],
    passes_shared: false,
    depends_on: [],
    deadline_seconds: 60,
    ...operation,
  })
}

export async function read(db: Db, id: string): Promise<OperationRow> {
  return (await db.row<OperationRow>(sql`select * from operation where id = ${id}`)) as OperationRow
}

/** The host that a catalog has before any worker. */
export const HOST = 'first'

const EVERY_ACTION = [
  'toil',
  'apply_config',
  'create_branch',
  'create_timeline',
  'delete_tenant',
  'delete_timeline',
  'start_compute',
  'suspend_compute',
  'timeline_archive',
  'timeline_unarchive',
]

/** A place for one operation of these actions. */
export const vacancyFor = (...actions: readonly string[]): Vacancy[] => [{ actions, most: 1, busy: [], share: 1 }]

/**
 * Claims the next due operation as a worker does; it is `running` afterwards. Returns undefined when no operation is
 * due.
 */
export async function take(catalog: Catalog): Promise<Due | undefined> {
  return (await claim(catalog, vacancyFor(...EVERY_ACTION), HOST)).due[0]
}

/**
 * All operations that workers would claim now, oldest first. They are not locked by a worker, so a second call returns
 * the same.
 */
export async function takeAll(catalog: Catalog): Promise<Due[]> {
  const taken: Due[] = []
  for (;;) {
    const driven = taken.map(({ id }) => id)
    const { due } = await claim(catalog, vacancyFor(...EVERY_ACTION), HOST, driven)
    if (!due[0]) return taken.sort((one, other) => (one.id < other.id ? -1 : 1))
    taken.push(due[0])
  }
}

export async function finish(
  catalog: Catalog,
  { id }: { id: string },
  status: 'finished' | 'failed' = 'finished',
  error = '',
): Promise<void> {
  await catalog.transaction(async (tx) => end(tx, id, status, error || null))
  await notifyCompleted(catalog, [id])
}

/** Waits for the next event of that name. */
export async function emitted<T = unknown>(events: EventEmitter, name: string): Promise<T> {
  const [value] = (await once(events, name)) as [T]
  return value
}
