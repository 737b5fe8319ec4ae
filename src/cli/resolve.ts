import type { ApiResponse, ApiClient } from '../client.ts'
import { UsageError } from '../errors.ts'
import { printable } from './table.ts'

export type ApiProject = Omit<ApiResponse<'GET /projects'>['projects'][number], 'active_time'>
export type ApiBranch = ApiResponse<'GET /projects/:project_id/branches'>['branches'][number]
export type ApiEndpoint = ApiResponse<'GET /projects/:project_id/endpoints/:endpoint_id'>['endpoint']

const PROJECT_ID = /^[a-z]+-[a-z]+-\d{8}$/
const BRANCH_ID = /^br-[a-z0-9]+-[a-z0-9]+-[a-z0-9]+$/
const ENDPOINT_ID = /^ep-[a-z0-9]+-[a-z0-9]+-[a-z0-9]+$/
const MAX_NAMED = 10

/** The id of the project with an id or name, or of the only project. Errors: UsageError that lists the projects. */
export async function projectId(call: ApiClient, asked: string | undefined, how: string): Promise<string> {
  if (asked !== undefined && PROJECT_ID.test(asked)) return asked
  const { projects } = await listProjects(call)
  if (projects.length === 0) throw new UsageError('There is no project yet. Make one: neap projects create')
  const fitting = asked === undefined ? projects : projects.filter(({ id, name }) => id === asked || name === asked)
  const [only, ...more] = fitting
  if (only && more.length === 0) return only.id
  if (asked === undefined) throw new UsageError(`${how}. There are: ${named(projects)}`)
  throw new UsageError(
    only
      ? `Several projects are called ${printable(asked)}; say which by its id: ${oldestFirst(fitting).join(', ')}`
      : `There is no project ${printable(asked)}. There are: ${named(projects)}`,
  )
}

/** All projects of the account, from all pages. */
export async function listProjects(call: ApiClient, search?: string): Promise<ApiResponse<'GET /projects'>> {
  const page = await call('GET /projects', { query: { limit: 400, search } })
  let last = page
  while (last.pagination && last.projects.length > 0) {
    last = await call('GET /projects', { query: { limit: 400, search, cursor: last.pagination.cursor } })
    page.projects.push(...last.projects)
  }
  delete page.pagination
  return page
}

/** The id of the branch with an id or name, or of the default branch. Errors: UsageError that lists the branches. */
export async function branchId(call: ApiClient, project_id: string, asked: string | undefined): Promise<string> {
  if (asked !== undefined && BRANCH_ID.test(asked)) return asked
  const { branches } = await listBranches(call, project_id)
  const found = branches.find((branch) => (asked === undefined ? branch.default : branch.name === asked))
  if (found) return found.id
  throw new UsageError(
    asked === undefined
      ? `The project ${project_id} has no default branch; name one of: ${named(branches)}`
      : `There is no branch ${printable(asked)} in the project ${project_id}. There are: ${named(branches)}`,
  )
}

type Branches = ApiResponse<'GET /projects/:project_id/branches'>

/** All branches of a project, in the order in which they were made; if asked, with those that can be recovered. */
export async function listBranches(
  call: ApiClient,
  project_id: string,
  { include_deleted = false } = {},
): Promise<Branches> {
  const params = { project_id }
  const order = { limit: 10_000, sort_by: 'created_at', sort_order: 'asc', include_deleted } as const
  const { branches, annotations, pagination } = await call('GET /projects/:project_id/branches', {
    params,
    query: order,
  })
  for (let cursor = pagination?.next; cursor !== undefined;) {
    const page: Branches = await call('GET /projects/:project_id/branches', { params, query: { ...order, cursor } })
    branches.push(...page.branches)
    Object.assign(annotations, page.annotations)
    cursor = page.pagination?.next
  }
  return { branches, annotations }
}

/** A branch and its endpoints as they are now. */
export async function branchNow(
  call: ApiClient,
  { project_id, id }: ApiBranch,
): Promise<{ branch: ApiBranch; endpoints: ApiEndpoint[] }> {
  const params = { project_id, branch_id: id }
  const { branch } = await call('GET /projects/:project_id/branches/:branch_id', { params })
  const { endpoints } = await call('GET /projects/:project_id/endpoints', { params })
  return { branch, endpoints: endpoints.filter(({ branch_id }) => branch_id === id) }
}

/** The id of the endpoint with an id, name or branch; by default that of the default branch. Errors: UsageError. */
export async function endpointId(call: ApiClient, project_id: string, asked: string | undefined): Promise<string> {
  if (asked !== undefined && ENDPOINT_ID.test(asked)) return asked
  const { endpoints } = await call('GET /projects/:project_id/endpoints', { params: { project_id } })
  const byName = asked !== undefined && endpoints.find(({ name }) => name === asked)
  if (byName) return byName.id
  const branch_id = await branchId(call, project_id, asked)
  const found = endpoints.find((endpoint) => endpoint.branch_id === branch_id)
  if (found) return found.id
  throw new UsageError(`The branch ${asked ?? branch_id} has no endpoint. Make one: neap endpoints create ${branch_id}`)
}

/** The database with the given name, or the only one of the branch. Errors: UsageError that lists the databases. */
export async function findDatabase(
  call: ApiClient,
  params: { project_id: string; branch_id: string },
  asked: string | undefined,
) {
  const { databases } = await call('GET /projects/:project_id/branches/:branch_id/databases', { params })
  const fitting = asked === undefined ? databases : databases.filter(({ name }) => name === asked)
  const [only, ...more] = fitting
  if (only && more.length === 0) return only
  const there = databases.map(({ name }) => printable(name)).join(', ') || 'none'
  throw new UsageError(
    asked === undefined
      ? `Say which database with --database <name>. There are: ${there}`
      : `There is no database ${printable(asked)} in the branch. There are: ${there}`,
  )
}

function oldestFirst(projects: readonly ApiProject[]): string[] {
  return [...projects].sort((a, b) => a.created_at.localeCompare(b.created_at)).map(({ id }) => id)
}

function named(things: readonly { readonly id: string; readonly name: string }[]): string {
  const sorted = [...things].sort((a, b) => a.name.localeCompare(b.name))
  const names = sorted.slice(0, MAX_NAMED).map(({ id, name }) => (name === id ? id : `${printable(name)} (${id})`))
  const more = things.length - names.length
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '')
}
