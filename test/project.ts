import { envOf, type Neap, neapRun } from './neap.ts'
import { until } from './processes.ts'

/** The ids of a project, one branch of it and that branch's endpoint, and the connection URI. */
export interface Place {
  readonly project_id: string
  readonly branch_id: string
  readonly endpoint_id: string
  readonly uri: string
}

/** The project that the first start made. */
export async function firstPlace(neap: Neap): Promise<Place> {
  const { project_id, connection_uri } = neap.ready
  if (!project_id || !connection_uri) throw new Error('there is no first project')
  const { endpoints } = await neap.call('GET /projects/:project_id/endpoints', { params: { project_id } })
  const [endpoint] = endpoints
  if (!endpoint) throw new Error('the first project has no endpoint')
  return { project_id, branch_id: endpoint.branch_id, endpoint_id: endpoint.id, uri: connection_uri }
}

/** Creates a project, waits for it, and returns its branch, endpoint and connection URI. */
export async function newProject(neap: Neap, project: { settings?: { enable_egress?: boolean } } = {}): Promise<Place> {
  const made = await neap.call('POST /projects', { body: { project } })
  await neap.ended(made.operations)
  const [endpoint, connection] = [made.endpoints[0], made.connection_uris[0]]
  if (!endpoint || !connection) throw new Error('the project has no endpoint')
  const place = { project_id: made.project.id, branch_id: made.branch.id, endpoint_id: endpoint.id }
  return { ...place, uri: connection.connection_uri }
}

/** Enables logical replication for a project. */
export async function enableReplication(neap: Neap, { project_id }: Place): Promise<void> {
  const body = { project: { settings: { enable_logical_replication: true } } }
  const { operations } = await neap.call('PATCH /projects/:project_id', { params: { project_id }, body })
  await neap.ended(operations)
}

/** Suspends an endpoint and waits until it is idle. */
export async function suspend(neap: Neap, { project_id, endpoint_id }: Place): Promise<void> {
  const params = { project_id, endpoint_id }
  const { operations } = await neap.call('POST /projects/:project_id/endpoints/:endpoint_id/suspend', { params })
  await neap.ended(operations)
}

export async function endpointOf(neap: Neap, { project_id, endpoint_id }: Place) {
  const params = { project_id, endpoint_id }
  return (await neap.call('GET /projects/:project_id/endpoints/:endpoint_id', { params })).endpoint
}

/**
 * Waits until an endpoint has this state and none pending. A client may have its first answer a moment before the
 * operation that let it in has ended.
 */
export async function settled(neap: Neap, place: Place, state: 'active' | 'idle'): Promise<void> {
  await until(`${place.endpoint_id} is ${state}`, async () => {
    const { current_state, pending_state } = await endpointOf(neap, place)
    return current_state === state && pending_state === undefined
  }).catch(async (error: unknown) => {
    throw new Error(`${(error as Error).message}: ${await operationHistory(neap, place)}`, { cause: error })
  })
}

/** The latest operations of an endpoint and its activity, for the message of a failed test. */
async function operationHistory(neap: Neap, place: Place): Promise<string> {
  const operations = (await operationsOf(neap, place)).filter(({ endpoint_id }) => endpoint_id === place.endpoint_id)
  const activity = await neap
    .call('GET /projects/:project_id/endpoints/:endpoint_id/activity', { params: place })
    .catch((error: unknown) => (error as Error).message)
  return JSON.stringify({ operations: operations.slice(0, 5), activity })
}

/** The operations of a project, newest first. */
export async function operationsOf(neap: Neap, { project_id }: Place) {
  return (await neap.call('GET /projects/:project_id/operations', { params: { project_id } })).operations
}

/** A size in CU; `max` is `min` where it is left out. */
export interface SizeRange {
  readonly min: number
  readonly max?: number
}

const limitsOf = ({ min, max = min }: SizeRange) => ({
  autoscaling_limit_min_cu: min,
  autoscaling_limit_max_cu: max,
})

/** Asks for another size of an endpoint. Returns the operations that make it. */
export async function resize(neap: Neap, { project_id, endpoint_id }: Place, size: SizeRange) {
  const { operations } = await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
    params: { project_id, endpoint_id },
    body: { endpoint: limitsOf(size) },
  })
  return operations
}

/** The id of an endpoint's compute, once it has one. */
export function computeIdOf(neap: Neap, { endpoint_id }: Place): Promise<string> {
  return until('it has a compute', async () => {
    const { computes } = await neap.call('GET /status', {})
    return computes.find((compute) => compute.endpoint_id === endpoint_id)?.compute_id
  })
}

/** Creates a branch with an endpoint and waits for both. Its roles and passwords are its parent's. */
export async function branchOff(neap: Neap, parent: Place, size?: SizeRange): Promise<Place> {
  const { branch, endpoints, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: parent.project_id },
    body: { branch: { parent_id: parent.branch_id }, endpoints: [{ type: 'read_write', ...(size && limitsOf(size)) }] },
  })
  await neap.ended(operations)
  const [endpoint] = endpoints
  if (!endpoint) throw new Error('the branch has no endpoint')
  const uri = parent.uri.replace(parent.endpoint_id, endpoint.id)
  return { project_id: parent.project_id, branch_id: branch.id, endpoint_id: endpoint.id, uri }
}

export interface Compute {
  readonly endpoint_id: string
  readonly branch_id: string
  readonly state: string
  readonly pid?: number
  readonly socket_dir?: string
  readonly port?: number
}

/** The compute of an endpoint in `neap status --json`. Returns undefined when the endpoint has no compute. */
export async function computeOf(neap: Neap, { endpoint_id }: Place): Promise<Compute | undefined> {
  const { data_dir } = neap.ready
  const { stdout } = await neapRun(['status', '--json', '--data-dir', data_dir], envOf(data_dir))
  const { computes } = JSON.parse(stdout) as { computes: Compute[] }
  return computes.find((compute) => compute.endpoint_id === endpoint_id)
}
