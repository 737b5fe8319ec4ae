import { type ApiClient, makeClient } from '../client.ts'
import { awaitOperations } from '../catalog/operation.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { adminSocket, type Config } from '../config.ts'
import { AppError, UsageError } from '../errors.ts'
import { readState, updateState } from './data_dir.ts'
import type { ProgressReporter } from './progress.ts'

/** The first project and its connection string, to show to a new user. */
export interface ReadyProject {
  readonly project_id: string | null
  readonly connection_uri: string | null
}

const NONE: ReadyProject = { project_id: null, connection_uri: null }
const MAKE_MS = 120_000
/** A compute that recovers, or has no room to, may take longer: only its connection string is not shown then. */
const WAKE_MS = 20_000
const TRIES = 5

/**
 * The project that the first start created, if it still exists. On the first start (`make`), creates it, or completes
 * the creation that a killed start began.
 */
export async function firstProject(
  config: Config,
  catalog: Catalog,
  options: { make: boolean },
  progress: ProgressReporter,
): Promise<ReadyProject> {
  const call = makeClient({ socket: adminSocket(config) })
  const { projectId } = readState(config.dataDir)
  const find = (id: string) =>
    findSurely(call, id, async () => progress.during('asking a compute', wake(call, catalog, id)), progress)
  if (!options.make) return projectId ? find(projectId) : NONE
  const project_id = projectId ?? (await anyProject(call)) ?? (await makeProject(call))
  updateState(config.dataDir, { projectId: project_id })
  const params = { project_id }
  const { operations } = await call('GET /projects/:project_id/operations', { params })
  const ids = operations.map(({ id }) => id)
  const ended = await progress.during('making a first project', awaitOperations(catalog, ids, MAKE_MS))
  const failed = ended.find((operation) => operation.status !== 'finished')
  if (!failed) return find(project_id)
  // The next start creates another.
  await call('DELETE /projects/:project_id', { params })
  updateState(config.dataDir, { projectId: undefined })
  throw new UsageError(`The first project could not be made: ${failed.action}: ${failed.error ?? 'it takes too long'}`)
}

/**
 * As `findProject`. If the last compute was killed, only a running one can confirm that a password is still the one
 * given out: then it is woken and asked. An unconfirmed password does not prevent the start.
 */
async function findSurely(
  call: ApiClient,
  id: string,
  wakeCompute: () => Promise<void>,
  { say }: ProgressReporter,
): Promise<ReadyProject> {
  for (let turn = 1; ; turn++) {
    try {
      return await findProject(call, id)
    } catch (error) {
      if (!(error instanceof AppError) || !['NOT_ALLOWED', 'UNAVAILABLE'].includes(error.code)) throw error
      // A busy compute may answer the next time.
      if (error.code === 'UNAVAILABLE' && turn < TRIES) continue
      if (error.code === 'NOT_ALLOWED' && turn === 1) {
        await wakeCompute()
        continue
      }
      say(`The first project has no connection string to show: ${error.message}`)
      return { project_id: id, connection_uri: null }
    }
  }
}

/** Starts the compute of a project's default branch, and waits. */
async function wake(call: ApiClient, catalog: Catalog, project_id: string): Promise<void> {
  const { branches } = await call('GET /projects/:project_id/branches', { params: { project_id } })
  const { endpoints } = await call('GET /projects/:project_id/endpoints', { params: { project_id } })
  const branch = branches.find((each) => each.default)
  const endpoint = endpoints.find((each) => each.branch_id === branch?.id)
  if (!endpoint) return
  const params = { project_id, endpoint_id: endpoint.id }
  const { operations } = await call('POST /projects/:project_id/endpoints/:endpoint_id/start', { params })
  await awaitOperations(
    catalog,
    operations.map(({ id }) => id),
    WAKE_MS,
  )
}

async function anyProject(call: ApiClient): Promise<string | undefined> {
  return (await call('GET /projects', { query: { limit: 1 } })).projects[0]?.id
}

async function makeProject(call: ApiClient): Promise<string> {
  return (await call('POST /projects', { body: { project: { name: 'first' } } })).project.id
}

/** The project and the URI of its default branch. Errors: NOT_ALLOWED, UNAVAILABLE (its password is not confirmed). */
export async function findProject(call: ApiClient, id: string): Promise<ReadyProject> {
  try {
    const params = { project_id: id }
    const { branches } = await call('GET /projects/:project_id/branches', { params })
    const branch_id = branches.find((branch) => branch.default)?.id ?? ''
    const { roles } = await call('GET /projects/:project_id/branches/:branch_id/roles', {
      params: { ...params, branch_id },
    })
    const { databases } = await call('GET /projects/:project_id/branches/:branch_id/databases', {
      params: { ...params, branch_id },
    })
    const query = { role_name: roles[0]?.name ?? '', database_name: databases[0]?.name ?? '' }
    const { uri } = await call('GET /projects/:project_id/connection_uri', { params, query })
    return { project_id: id, connection_uri: uri }
  } catch (error) {
    if (error instanceof AppError && error.code === 'NOT_FOUND') return NONE
    throw error
  }
}
