import { type Client, makeClient } from '../client.ts'
import { awaitOperations } from '../catalog/operation.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { adminSocket, type Config } from '../config.ts'
import { AppError, UsageError } from '../errors.ts'
import { readState, updateState } from './data_dir.ts'
import type { Progress } from './progress.ts'

/** What a newcomer connects to. */
export interface ReadyProject {
  readonly project_id: string | null
  readonly connection_uri: string | null
}

const NONE: ReadyProject = { project_id: null, connection_uri: null }
const MAKE_MS = 120_000

/** The project that the first start made, if it still exists; makes it on that first start. */
export async function firstProject(
  config: Config,
  catalog: Catalog,
  options: { make: boolean },
  progress: Progress,
): Promise<ReadyProject> {
  const call = makeClient({ socket: adminSocket(config) })
  const { projectId } = readState(config.dataDir)
  if (projectId) return findProject(call, projectId)
  if (!options.make) return NONE
  const made = await call('POST /projects', { body: { project: { name: 'first' } } })
  updateState(config.dataDir, { projectId: made.project.id })
  const ended = await progress.during(
    'making a first project',
    awaitOperations(
      catalog,
      made.operations.map(({ id }) => id),
      MAKE_MS,
    ),
  )
  const failed = ended.find((operation) => operation.status !== 'finished')
  if (failed)
    throw new UsageError(
      `The first project could not be made: ${failed.action}: ${failed.error ?? 'it takes too long'}`,
    )
  return { project_id: made.project.id, connection_uri: made.connection_uris[0]?.connection_uri ?? null }
}

/** The project, and how to connect to its default branch. */
export async function findProject(call: Client, id: string): Promise<ReadyProject> {
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
