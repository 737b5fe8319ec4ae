import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import {
  type Api,
  ConsumptionHistoryGranularity,
  EndpointType,
  MemberRole,
  type Operation,
} from '@neondatabase/api-client'
import { routes } from '../../src/http/routes/index.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { newVisit } from '../person.ts'
import { checkedClient, refusal, type Seen } from './checked_client.ts'
import { plainKey, shippedRoutes, wrongIn } from './shipped_contract.ts'

/*
 * The public client, unmodified, with all requests that Neap supports. Each answer, including refusals, is checked
 * against the document that the client ships; the table lists the differences, each with its reason.
 */

interface Deviation {
  readonly route: string
  readonly what: RegExp
  readonly why: string
}

const DEVIATIONS: readonly Deviation[] = [
  {
    route: 'GET /projects/{}/operations',
    what: /^\/operations\/\d+\/action must be equal to one of the allowed values$/,
    why: 'The reference names the action delete_tenant, which clients of today have forgotten.',
  },
]

const fifteen = existsSync('/usr/lib/postgresql/15/bin/pg_dump')

let neap: Neap
let api: Api<unknown>
let project: string
let branch: string
let endpoint: string
const seen: Seen = { statuses: new Map(), wrong: [] }

before(async () => {
  neap = await startNeap()
  api = clientWith(neap.ready.api_key)
  project = neap.ready.project_id as string
  const { endpoints } = (await api.listProjectEndpoints(project)).data
  assert.ok(endpoints[0])
  endpoint = endpoints[0].id
  branch = endpoints[0].branch_id
})

after(() => neap?.stop())

const clientWith = (apiKey: string | null) => checkedClient(neap.ready.api_url, apiKey, seen)
const done = async ({ data }: { data: { operations: Operation[] } }) => neap.ended(data.operations)

test('the account, its organization and the regions', async () => {
  const { data: auth } = await api.getAuthDetails()
  const { data: me } = await api.getCurrentUserInfo()
  assert.deepEqual([auth.auth_method, auth.account_id], ['api_key_user', me.id])
  // Go's client requires every field of it.
  assert.deepEqual([me.billing_account?.email, me.billing_account?.payment_method], [me.email, 'none'])
  const [organization] = (await api.getCurrentUserOrganizations()).data.organizations
  assert.ok(organization)
  assert.deepEqual((await api.getOrganization(organization.id)).data, organization)
  const { members } = (await api.getOrganizationMembers({ orgId: organization.id })).data
  assert.deepEqual(
    members.map(({ user, member }) => [user.email, member.role]),
    [[me.email, 'admin']],
  )
  const { data: member } = await api.getOrganizationMember(organization.id, me.id)
  assert.deepEqual([member.id, member.role], [me.id, 'admin'])
  assert.deepEqual((await api.getOrganizationInvitations(organization.id)).data, { invitations: [] })
  assert.deepEqual((await api.listOrganizationVpcEndpointsAllRegions(organization.id)).data, { endpoints: [] })
  const [region] = (await api.getActiveRegions({})).data.regions
  assert.deepEqual([region?.region_id, region?.default], ['local', true])
  assert.deepEqual((await api.listOrganizationVpcEndpoints(organization.id, 'local')).data, { endpoints: [] })
})

test('API keys are created, used, listed and revoked', async () => {
  const { data: made } = await api.createApiKey({ key_name: 'a key of the client' })
  assert.equal((await clientWith(made.key).getAuthDetails()).status, 200)
  const { data: keys } = await api.listApiKeys()
  assert.ok(keys.some(({ id, name }) => id === made.id && name === 'a key of the client'))
  assert.equal((await api.revokeApiKey(made.id)).data.revoked, true)
  assert.equal((await refusal(clientWith(made.key).getAuthDetails())).status, 401)
})

test('a member is invited to the organization, joins, gets another role, and is removed', async () => {
  const [organization] = (await api.getCurrentUserOrganizations()).data.organizations
  assert.ok(organization)
  const invitations = [{ role: MemberRole.Editor, email: 'ada@example.com' }]
  const { data } = await api.createOrganizationInvitations(organization.id, { invitations })
  const [{ url } = { url: '' }] = data.invitations as unknown as { url: string }[]
  const token = new URL(url).hash.slice(1)
  const person = { name: 'Ada', email: 'ada@example.com', password: 'a long password for Ada' }
  await newVisit(neap).done('POST', '//invitation/join', { token, ...person })
  const { members } = (await api.getOrganizationMembers({ orgId: organization.id })).data
  const ada = members.find(({ user }) => user.email === person.email)?.member
  assert.equal(ada?.role, 'editor')
  const { data: changed } = await api.updateOrganizationMember(organization.id, ada.id, { role: MemberRole.Viewer })
  assert.equal(changed.role, 'viewer')
  await api.removeOrganizationMember(organization.id, ada.id)
  assert.equal((await refusal(api.getOrganizationMember(organization.id, ada.id))).status, 404)
})

test('API keys of the organization are those of the account', async () => {
  const [organization] = (await api.getCurrentUserOrganizations()).data.organizations
  assert.ok(organization)
  const { data: made } = await api.createOrgApiKey(organization.id, { key_name: 'of the org', project_id: project })
  assert.equal((await clientWith(made.key).getProject(project)).status, 200)
  const { data: keys } = await api.listOrgApiKeys(organization.id)
  assert.equal(keys.find(({ id }) => id === made.id)?.project_id, project)
  assert.deepEqual(
    (await api.listApiKeys()).data.map(({ id }) => id),
    keys.map(({ id }) => id),
  )
  assert.equal((await api.revokeOrgApiKey(organization.id, made.id)).data.revoked, true)
  assert.equal((await refusal(clientWith(made.key).getProject(project))).status, 401)
})

test('lists of absent products are empty, and their operations are refused with a message', async () => {
  assert.deepEqual((await api.listProjectPermissions(project)).data, { project_permissions: [] })
  assert.deepEqual((await api.getProjectJwks(project)).data, { jwks: [] })
  assert.deepEqual((await api.getAvailablePreloadLibraries(project)).data, { libraries: [] })
  const refused = await refusal(api.getNeonAuth(project, branch))
  assert.deepEqual([refused.status, refused.code], [404, 'NOT_SUPPORTED'], refused.message)
})

test('projects are listed, read and searched', async () => {
  const { data: page } = await api.listProjects({ limit: 1, search: project })
  assert.deepEqual(
    page.projects.map(({ id }) => id),
    [project],
  )
  assert.deepEqual((await api.listProjects({ search: 'no project is called so' })).data.projects, [])
  const { data: read } = await api.getProject(project)
  assert.equal(read.project.pg_version, 18)
  assert.deepEqual((await api.listSnapshots(project)).data, { snapshots: [] })
  assert.deepEqual((await api.listProjectVpcEndpoints(project)).data, { endpoints: [] })
})

test('what projects and branches use is listed by day', async () => {
  const { data: account } = await api.getCurrentUserOrganizations()
  const query = {
    from: new Date(Date.now() - 86_400_000).toISOString(),
    to: new Date().toISOString(),
    granularity: ConsumptionHistoryGranularity.Daily,
    org_id: account.organizations[0]?.id ?? '',
    metrics: ['compute_unit_seconds' as const, 'root_branch_bytes_month' as const],
    project_ids: [project],
  }
  const { projects } = (await api.getConsumptionHistoryPerProjectV2(query)).data
  assert.deepEqual(
    projects.map(({ project_id }) => project_id),
    [project],
  )
  const { branches } = (await api.getConsumptionHistoryPerBranchV2(query)).data
  assert.ok(branches.every(({ project_id }) => project_id === project))
})

test('the list of shared projects is empty', async () => {
  assert.deepEqual((await api.listSharedProjects({})).data.projects, [])
})

test('a project is changed', async () => {
  const settings = { allowed_ips: { ips: ['10.0.0.0/8'], protected_branches_only: true } }
  const default_endpoint_settings = { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 2 }
  const change = { name: 'renamed', settings, default_endpoint_settings }
  const { data } = await api.updateProject(project, { project: change })
  assert.equal(data.project.name, 'renamed')
  assert.deepEqual(data.project.settings?.allowed_ips, settings.allowed_ips)
  await api.updateProject(project, { project: { settings: { allowed_ips: { ips: [] } } } })
})

test('branches are created, listed, counted, changed and deleted', async () => {
  const made = await api.createProjectBranch(project, {
    branch: { name: 'child', parent_id: branch },
    endpoints: [{ type: EndpointType.ReadWrite }],
    annotation_value: { made: 'by the client' },
  })
  const { id } = made.data.branch
  assert.equal(made.status, 201)
  await done(made)
  const { data: listed } = await api.listProjectBranches({ projectId: project, search: 'child' })
  assert.deepEqual(
    listed.branches.map((each) => each.id),
    [id],
  )
  assert.equal((await api.getProjectBranch(project, id)).data.branch.current_state, 'ready')
  assert.equal((await api.listProjectBranchEndpoints(project, id)).data.endpoints[0]?.branch_id, id)
  assert.deepEqual((await api.listProjectBranchBuckets(project, id)).data, { buckets: [] })
  // An empty list would make `neon env pull` assume a branch with an AI gateway, and ask for a key to it.
  assert.equal((await refusal(api.listCredentials(project, id))).code, 'NOT_SUPPORTED')
  assert.deepEqual((await api.listProjectBranchFunctions({ projectId: project, branchId: id })).data.functions, [])
  assert.equal((await api.countProjectBranches({ projectId: project })).data.count, 2)
  const expires_at = new Date(Date.now() + 3_600_000).toISOString()
  const { data: changed } = await api.updateProjectBranch(project, id, { branch: { name: 'kid', expires_at } })
  assert.deepEqual([changed.branch.name, changed.branch.id], ['kid', id])
  await done(await api.deleteProjectBranch({ projectId: project, branchId: id }))
  assert.equal((await refusal(api.getProjectBranch(project, id))).status, 404)
})

test('a branch is restored to its parent, and becomes the default', async () => {
  const made = await api.createProjectBranch(project, { branch: { name: 'next' } })
  const { id } = made.data.branch
  await done(made)
  await done(await api.restoreProjectBranch(project, id, { source_branch_id: branch }))
  await done(await api.setDefaultProjectBranch(project, id))
  assert.equal((await api.getProjectBranch(project, id)).data.branch.default, true)
  await done(await api.setDefaultProjectBranch(project, branch))
  await done(await api.deleteProjectBranch({ projectId: project, branchId: id }))
})

test('snapshots are taken, listed, renamed, restored and removed, and have a schedule', async () => {
  const source = await api.createProjectBranch(project, { branch: { name: 'for snapshots' } })
  const branchId = source.data.branch.id
  await done(source)
  const taken = await api.createSnapshot({ projectId: project, branchId, name: 'first' })
  const { id } = taken.data.snapshot
  await done(taken)
  assert.deepEqual(
    (await api.listSnapshots(project)).data.snapshots.map(({ name, manual }) => [name, manual]),
    [['first', true]],
  )
  const renamed = await api.updateSnapshot(project, id, { snapshot: { name: 'second' } })
  assert.equal(renamed.data.snapshot.name, 'second')
  const restored = await api.restoreSnapshot({ projectId: project, snapshotId: id }, { name: 'look' })
  assert.deepEqual([restored.data.branch.restored_from, restored.data.branch.restored_as], [id, branchId])
  await done(restored)
  await done(await api.finalizeRestoreBranch(project, restored.data.branch.id, { name: 'kept' }))
  const schedule = [{ frequency: 'daily', hour: 3, retention_seconds: 86_400 }]
  await api.setSnapshotSchedule(project, branchId, { schedule })
  assert.deepEqual((await api.getSnapshotSchedule(project, branchId)).data, { schedule })
  await api.setSnapshotSchedule(project, branchId, { schedule: [] })
  await done(await api.deleteSnapshot(project, id))
  assert.deepEqual((await api.listSnapshots(project)).data, { snapshots: [] })
  const { branches } = (await api.listProjectBranches({ projectId: project })).data
  const names = new Map(branches.map(({ name, id: each }) => [name, each]))
  // Each after its children.
  for (const name of ['for snapshots', 'look', 'kept'])
    await done(await api.deleteProjectBranch({ projectId: project, branchId: names.get(name) ?? '' }))
})

test('endpoints are created, changed, started, suspended, restarted and deleted', async () => {
  const made = await api.createProjectBranch(project, { branch: { name: 'for endpoints' } })
  const branch_id = made.data.branch.id
  await done(made)
  const created = await api.createProjectEndpoint(project, {
    endpoint: { branch_id, type: EndpointType.ReadWrite, autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 2 },
  })
  const { id } = created.data.endpoint
  assert.deepEqual([created.data.endpoint.current_state, created.data.endpoint.pending_state], ['init', 'active'])
  await done(created)
  const change = { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 3, suspend_timeout_seconds: 600 }
  const pg_settings = { work_mem: '8MB' }
  const updated = await api.updateProjectEndpoint(project, id, { endpoint: { ...change, settings: { pg_settings } } })
  assert.equal(updated.data.endpoint.suspend_timeout_seconds, 600)
  await done(updated)
  await done(await api.suspendProjectEndpoint(project, id))
  await done(await api.startProjectEndpoint(project, id))
  await done(await api.restartProjectEndpoint(project, id))
  const { data: read } = await api.getProjectEndpoint(project, id)
  assert.deepEqual([read.endpoint.current_state, read.endpoint.settings.pg_settings], ['active', pg_settings])
  assert.deepEqual((await api.deleteProjectEndpoint(project, id)).data.operations, [])
  await done(await api.deleteProjectBranch({ projectId: project, branchId: branch_id }))
})

test('roles are created, read, given passwords and deleted', async () => {
  const name = 'a_role'
  const made = await api.createProjectBranchRole(project, branch, { role: { name } })
  await done(made)
  const { roles } = (await api.listProjectBranchRoles(project, branch)).data
  assert.deepEqual(roles.map((role) => role.name).sort(), ['a_role', 'neondb_owner'])
  const { data: revealed } = await api.getProjectBranchRolePassword(project, branch, name)
  assert.equal(revealed.password, made.data.role.password)
  const reset = await api.resetProjectBranchRolePassword(project, branch, name)
  assert.notEqual(reset.data.role.password, revealed.password)
  await done(reset)
  assert.equal((await api.getProjectBranchRole(project, branch, name)).data.role.password, undefined)
  await done(await api.deleteProjectBranchRole(project, branch, name))
  assert.equal((await refusal(api.getProjectBranchRole(project, branch, name))).status, 404)
})

test('databases are created, read, renamed and deleted', async () => {
  const owner_name = 'neondb_owner'
  await done(await api.createProjectBranchDatabase(project, branch, { database: { name: 'shop', owner_name } }))
  const { databases } = (await api.listProjectBranchDatabases(project, branch)).data
  assert.deepEqual(databases.map(({ name }) => name).sort(), ['neondb', 'shop'])
  assert.equal((await api.getProjectBranchDatabase(project, branch, 'shop')).data.database.owner_name, owner_name)
  await done(await api.updateProjectBranchDatabase(project, branch, 'shop', { database: { name: 'store' } }))
  await done(await api.deleteProjectBranchDatabase(project, branch, 'store'))
  assert.equal((await refusal(api.getProjectBranchDatabase(project, branch, 'store'))).status, 404)
})

test('connection_uri gives the direct and the pooled host', async () => {
  const names = { database_name: 'neondb', role_name: 'neondb_owner' }
  const { data: plain } = await api.getConnectionUri({ projectId: project, ...names })
  assert.equal(plain.uri, neap.ready.connection_uri)
  const { data: pooled } = await api.getConnectionUri({ projectId: project, ...names, branch_id: branch, pooled: true })
  assert.ok(pooled.uri.includes(`${endpoint}-pooler`))
})

test('operations are paged and read', async () => {
  const { data: first } = await api.listProjectOperations({ projectId: project, limit: 1 })
  const [newest] = first.operations
  assert.ok(newest && first.pagination?.cursor)
  assert.deepEqual((await api.getProjectOperation(project, newest.id)).data.operation.id, newest.id)
  const { cursor } = first.pagination
  const { data: second } = await api.listProjectOperations({ projectId: project, limit: 1, cursor })
  assert.notEqual(second.operations[0]?.id, newest.id)
})

test("refusals have the client's error format and the status of the contract", async () => {
  const none = '00000000-0000-0000-0000-000000000000'
  const rw = { type: EndpointType.ReadWrite }
  for (const [what, ask, status, code] of [
    ['no key', () => clientWith(null).listProjects({}), 401, 'UNAUTHENTICATED'],
    ['a wrong key', () => clientWith('napi_wrong').listProjects({}), 401, 'UNAUTHENTICATED'],
    ['no such project', () => api.getProject('none-none-00000000'), 404, 'NOT_FOUND'],
    ['no such organization', () => api.getOrganization('org-none-none-00000000'), 404, 'NOT_FOUND'],
    ['no such operation', () => api.getProjectOperation(project, none), 404, 'NOT_FOUND'],
    [
      'no limit of that size',
      () => api.listProjectOperations({ projectId: project, limit: 0 }),
      400,
      'INVALID_REQUEST',
    ],
    [
      'a second endpoint',
      () => api.createProjectEndpoint(project, { endpoint: { branch_id: branch, ...rw } }),
      409,
      'ENDPOINTS_LIMIT_EXCEEDED',
    ],
    [
      'a name that is taken',
      () => api.createProjectBranch(project, { branch: { name: 'main' } }),
      409,
      'BRANCH_ALREADY_EXISTS',
    ],
    ['the default branch', () => api.deleteProjectBranch({ projectId: project, branchId: branch }), 422, 'NOT_ALLOWED'],
  ] as const) {
    const refused = await refusal(ask())
    assert.deepEqual([refused.status, refused.code], [status, code], `${what}: ${refused.message}`)
  }
})

test('a project is created, its schema read, and deleted; its operations stay readable', async () => {
  const branch_names = { database_name: 'shop', role_name: 'clerk' }
  const made = await api.createProject({
    project: { name: 'made', pg_version: fifteen ? 15 : 18, branch: branch_names },
  })
  assert.equal(made.data.connection_uris[0]?.connection_parameters.database, 'shop')
  await done(made)
  const { id } = made.data.project
  const schema = { projectId: id, branchId: made.data.branch.id, db_name: 'shop' }
  assert.match((await api.getProjectBranchSchema(schema)).data.sql ?? '', /PostgreSQL database dump/)
  const { data: compared } = await api.getProjectBranchSchemaComparison({ ...schema, base_branch_id: schema.branchId })
  assert.equal(compared.diff, '')
  await api.deleteProject(id)
  const { operations } = (await api.listProjectOperations({ projectId: id })).data
  assert.equal(operations[0]?.action, 'delete_tenant')
  await neap.ended(operations)
  assert.equal((await refusal(api.getProject(id))).status, 404)
})

test('a branch is anonymized by rules that were changed', async () => {
  const created = await api.createProject({ project: { name: 'masked' } })
  await done(created)
  const { id } = created.data.project
  const rule = { database_name: 'neondb', schema_name: 'public', table_name: 'absent', column_name: 'a' }
  const made = await api.createProjectBranchAnonymized(id, { masking_rules: [{ ...rule, masking_value: '1' }] })
  await done(made)
  const branchId = made.data.branch.id
  assert.equal((await api.getMaskingRules(id, branchId)).data.masking_rules[0]?.masking_value, '1')
  assert.deepEqual((await api.updateMaskingRules(id, branchId, { masking_rules: [] })).data.masking_rules, [])
  assert.equal((await api.startAnonymization(id, branchId)).data.state, 'anonymizing')
  await until('it is anonymized', async () => (await status()).state === 'anonymized')
  const { annotations } = (await api.listProjectBranches({ projectId: id })).data
  assert.equal(annotations[branchId]?.value['anonymized'], 'true')
  await api.deleteProject(id)

  async function status() {
    return (await api.getAnonymizedBranchStatus(id, branchId)).data
  }
})

test('deleted branches and projects are recovered within their recovery time', async () => {
  const patient = await startNeap({ env: { NEAP_RECOVER_HOURS: '1', NEAP_BRANCH_RECOVER_HOURS: '1' } })
  try {
    const client = checkedClient(patient.ready.api_url, patient.ready.api_key, seen)
    const id = patient.ready.project_id as string
    const made = (await client.createProjectBranch(id, { branch: { name: 'again' } })).data
    await patient.ended(made.operations)
    const place = { projectId: id, branchId: made.branch.id }
    await client.deleteProjectBranch(place)
    const { branches } = (await client.listProjectBranches({ projectId: id, include_deleted: true })).data
    assert.equal(branches.find(({ name }) => name === 'again')?.recovery?.deletion_method, 'user')
    assert.equal((await client.recoverProjectBranch(id, made.branch.id)).data.branch.name, 'again')
    await client.deleteProjectBranch({ ...place, hard_delete: true })
    await client.deleteProject(id)
    const { projects } = (await client.listProjects({ recoverable: true })).data
    assert.deepEqual(
      projects.map((each) => each.id),
      [id],
    )
    const { data } = await client.recoverProject(id)
    assert.deepEqual([data.project.id, data.branches?.map(({ name }) => name)], [id, ['main']])
  } finally {
    await patient.stop()
  }
})

test('every route of the client was called with success', () => {
  const ours = routes.map(({ key }) => plainKey(...(key.split(' ') as [string, string])))
  const known = ours.filter((key) => shippedRoutes.has(key))
  const succeeded = (key: string) => [...(seen.statuses.get(key) ?? [])].some((status) => status < 300)
  assert.deepEqual(
    known.filter((key) => !succeeded(key)),
    [],
  )
})

test('every answer matches the shipped document, except for the listed deviations', () => {
  const allowed = ({ route, what }: { route: string; what: string }) =>
    DEVIATIONS.find((each) => each.route === route && each.what.test(what.replace(/^\d+ /, '')))
  const unexpected = seen.wrong.filter((each) => !allowed(each)).map(({ route, what }) => `${route}: ${what}`)
  assert.deepEqual([...new Set(unexpected)], [])
  const occurred = new Set(seen.wrong.map(allowed))
  assert.deepEqual(
    DEVIATIONS.filter((each) => !occurred.has(each)),
    [],
    'these deviations no longer occur: take them off the table',
  )
})

test('the check of answers detects missing, mistyped and undeclared fields', () => {
  const auth = { account_id: 'x', auth_method: 'oauth' }
  assert.deepEqual(wrongIn('GET /auth', 200, auth), [])
  assert.deepEqual(wrongIn('GET /auth', 200, { ...auth, account_id: 1 }), ['/account_id must be string'])
  assert.deepEqual(wrongIn('GET /auth', 200, { account_id: 'x' }), [" must have required property 'auth_method'"])
  assert.deepEqual(wrongIn('GET /auth', 404, { code: 'X' }), [" must have required property 'message'"])
  assert.deepEqual(wrongIn('GET /auth', 201, auth), ['the status 201 is not declared'])
  const created_by = { id: '00000000-0000-0000-0000-000000000000', name: '', image: '' }
  const key = { id: 1, name: '', created_at: '2026-01-01T00:00:00Z', created_by, last_used_from_addr: '' }
  assert.deepEqual(wrongIn('GET /api_keys', 200, [{ ...key, last_used_at: null }]), [])
  assert.notDeepEqual(wrongIn('GET /api_keys', 200, [{ ...key, last_used_at: 'today' }]), [])
})
