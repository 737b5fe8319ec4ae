import { routes } from '../../src/http/routes/index.ts'
import type { Scope } from './account.ts'
import type { Scene } from './scene.ts'

export type Key = (typeof routes)[number]['key']

export interface Input {
  readonly params?: Readonly<Record<string, string | number>>
  readonly query?: Readonly<Record<string, string | number | boolean>>
  readonly body?: unknown
}

export interface Entry {
  /** The least scope that a key needs. */
  readonly scope: Scope
  /**
   * The input of a valid request, besides the ids of the scene. Resources that the request uses up or changes
   * permanently are created for it.
   */
  readonly input: (scene: Scene) => Input | Promise<Input>
  /** The answer comes from a compute, through the worker; 501 where this machine lacks a program for it. */
  readonly asksCompute?: boolean
  /** Every key is refused with 403: only sessions or the admin socket are admitted. */
  readonly refusesKeys?: boolean
}

type Make = Entry['input']
const nothing: Make = () => ({})
const read = (input = nothing): Entry => ({ scope: 'read', input })
const write = (input = nothing): Entry => ({ scope: 'write', input })
const admin = (input = nothing): Entry => ({ scope: 'admin', input })

const onEndpoint =
  (state?: 'active' | 'idle', body?: object): Make =>
  async (scene) => ({ params: { endpoint_id: await scene.endpoint(state) }, ...(body && { body }) })
const onLogin: Make = async (scene) => ({ params: { code: await scene.waitingLogin() } })
const onRole: Make = ({ role }) => ({ params: { role_name: role } })
const ofConnection = ({ database, role }: Scene) => ({ query: { database_name: database, role_name: role } })
const ofConsumption = ({ project_id }: Scene) => ({
  query: {
    from: new Date(Date.now() - 86_400_000).toISOString(),
    to: new Date().toISOString(),
    granularity: 'hourly',
    metrics: 'compute_unit_seconds,public_network_transfer_bytes',
    project_ids: project_id,
  },
})
const RULE = { database_name: 'd', schema_name: 's', table_name: 't', column_name: 'c', masking_value: '1' }
const ofAnonymized = async (scene: Scene) => ({ params: { branch_id: await scene.anonymizedBranch() } })
const ofSchema = ({ database }: Scene) => ({ query: { db_name: database } })

/** A valid request for each route. A missing or superfluous route is a compiler error. */
export const EVERY_ROUTE: Record<Key, Entry> = {
  'POST /projects': write((scene) => ({ body: { project: { name: scene.name() } } })),
  'GET /projects': read(),
  'POST /sign_in_links': { ...admin(), refusesKeys: true },
  'GET /passwordless_logins/:code': read(onLogin),
  'POST /passwordless_logins/:code/approve': write(onLogin),
  'POST /passwordless_logins/:code/refuse': write(onLogin),
  'GET /users/me/sessions': { ...read(), refusesKeys: true },
  'DELETE /users/me/sessions/:session_id': { ...read(() => ({ params: { session_id: 1 } })), refusesKeys: true },
  'GET /projects/:project_id': read(),
  'PATCH /projects/:project_id': write(async (scene) => ({
    params: { ...(await scene.project()) },
    body: { project: { name: scene.name() } },
  })),
  'GET /projects/:project_id/limits': read(),
  'GET /consumption_history/v2/projects': read(ofConsumption),
  'GET /consumption_history/v2/branches': read(ofConsumption),
  'GET /projects/shared': read(),
  'DELETE /projects/:project_id': write(async (scene) => ({ params: { ...(await scene.project()) } })),
  'POST /projects/:project_id/recover': write(async (scene) => ({
    params: { project_id: await scene.deletedProject() },
  })),
  'POST /projects/:project_id/branches/:branch_id/recover': write(async (scene) => ({
    params: { branch_id: await scene.deletedBranch() },
  })),
  'POST /projects/:project_id/branch_anonymized': write(() => ({ body: {} })),
  'GET /projects/:project_id/branches/:branch_id/masking_rules': read(ofAnonymized),
  'PATCH /projects/:project_id/branches/:branch_id/masking_rules': write(async (scene) => ({
    ...(await ofAnonymized(scene)),
    body: { masking_rules: [RULE] },
  })),
  'GET /projects/:project_id/branches/:branch_id/anonymized_status': read(ofAnonymized),
  'POST /projects/:project_id/branches/:branch_id/anonymize': write(ofAnonymized),
  'GET /projects/:project_id/connection_uri': write(ofConnection),
  'GET /projects/:project_id/snapshots': read(),
  'PATCH /projects/:project_id/snapshots/:snapshot_id': write(async (scene) => ({
    params: { snapshot_id: await scene.makeSnapshot() },
    body: { snapshot: { name: scene.name() } },
  })),
  'DELETE /projects/:project_id/snapshots/:snapshot_id': write(async (scene) => ({
    params: { snapshot_id: await scene.makeSnapshot() },
  })),
  'POST /projects/:project_id/snapshots/:snapshot_id/restore': write((scene) => ({ body: { name: scene.name() } })),
  'GET /projects/:project_id/vpc_endpoints': read(),
  'GET /projects/:project_id/permissions': read(),
  'GET /projects/:project_id/jwks': read(),
  'GET /projects/:project_id/available_preload_libraries': read(),

  'POST /projects/:project_id/branches': write((scene) => ({
    body: { branch: { name: scene.name(), parent_id: scene.branch_id }, endpoints: [{ type: 'read_write' }] },
  })),
  'GET /projects/:project_id/branches': read(),
  'GET /projects/:project_id/branches/count': read(),
  'GET /projects/:project_id/branches/:branch_id': read(),
  'POST /projects/:project_id/branches/:branch_id/set_as_default': write(async (scene) => {
    const { project_id } = await scene.project()
    return { params: { project_id, branch_id: await scene.branch(project_id) } }
  }),
  'POST /projects/:project_id/branches/:branch_id/set_as_primary': write(async (scene) => {
    const { project_id } = await scene.project()
    return { params: { project_id, branch_id: await scene.branch(project_id) } }
  }),
  'PATCH /projects/:project_id/branches/:branch_id': write(async (scene) => ({
    params: { branch_id: await scene.branch() },
    body: { branch: { name: scene.name() } },
  })),
  'GET /projects/:project_id/branches/:branch_id/endpoints': read(),
  'DELETE /projects/:project_id/branches/:branch_id': write(async (scene) => ({
    params: { branch_id: await scene.branch() },
  })),
  'POST /projects/:project_id/branches/:branch_id/restore': write(async (scene) => ({
    params: { branch_id: await scene.branch() },
    body: { source_branch_id: scene.branch_id },
  })),
  'POST /projects/:project_id/branches/:branch_id/reset_to_parent': write(async (scene) => ({
    params: { branch_id: await scene.branch() },
  })),
  'POST /projects/:project_id/branches/:branch_id/snapshot': write((scene) => ({ query: { name: scene.name() } })),
  'GET /projects/:project_id/branches/:branch_id/backup_schedule': read(),
  'PUT /projects/:project_id/branches/:branch_id/backup_schedule': write(() => ({
    body: { schedule: [{ frequency: 'daily', hour: 3, retention_seconds: 86_400 }] },
  })),
  'POST /projects/:project_id/branches/:branch_id/finalize_restore': write(async (scene) => ({
    params: { branch_id: await scene.restoredBranch() },
    body: { name: scene.name() },
  })),
  'GET /projects/:project_id/branches/:branch_id/schema': { ...read(ofSchema), asksCompute: true },
  'GET /projects/:project_id/branches/:branch_id/compare_schema': {
    ...read((scene) => ({ query: { ...ofSchema(scene).query, base_branch_id: scene.branch_id } })),
    asksCompute: true,
  },
  'GET /projects/:project_id/branches/:branch_id/backup': read(),
  'GET /projects/:project_id/branches/:branch_id/history': read(),
  'GET /projects/:project_id/branches/:branch_id/disk_usage': read(),
  'GET /projects/:project_id/disk_usage': read(),
  'GET /projects/:project_id/branches/:branch_id/tables': { ...read(ofSchema), asksCompute: true },
  'POST /projects/:project_id/branches/:branch_id/sql': {
    ...write(({ database, role }) => ({ body: { database_name: database, role_name: role, sql: 'select 1' } })),
    asksCompute: true,
  },
  'GET /projects/:project_id/branches/:branch_id/buckets': read(),
  'GET /projects/:project_id/branches/:branch_id/functions': read(),

  'POST /projects/:project_id/endpoints': write(async (scene) => ({
    body: { endpoint: { branch_id: await scene.branch(), type: 'read_write' } },
  })),
  'GET /projects/:project_id/endpoints': read(),
  'GET /projects/:project_id/endpoints/:endpoint_id': read(),
  'GET /projects/:project_id/endpoints/:endpoint_id/activity': read(),
  'GET /projects/:project_id/endpoints/:endpoint_id/scaling': read(),
  'GET /projects/:project_id/endpoints/:endpoint_id/metrics': read(),
  'PATCH /projects/:project_id/endpoints/:endpoint_id': write(onEndpoint('idle', { endpoint: { name: 'other' } })),
  'DELETE /projects/:project_id/endpoints/:endpoint_id': write(onEndpoint()),
  'POST /projects/:project_id/endpoints/:endpoint_id/start': write(onEndpoint('idle')),
  'POST /projects/:project_id/endpoints/:endpoint_id/restart': write(onEndpoint()),
  'POST /projects/:project_id/endpoints/:endpoint_id/suspend': write(onEndpoint()),

  'GET /projects/:project_id/operations': read(),
  'GET /projects/:project_id/operations/stream': read(),
  'GET /projects/:project_id/operations/:operation_id': read(),
  'GET /projects/:project_id/operations/:operation_id/steps': read(),
  'POST /projects/:project_id/operations/:operation_id/cancel': write(async (scene) => ({
    params: { operation_id: await scene.waitingOperation() },
  })),

  'POST /projects/:project_id/branches/:branch_id/roles': write((scene) => ({
    body: { role: { name: scene.name() } },
  })),
  'GET /projects/:project_id/branches/:branch_id/roles': read(),
  'GET /projects/:project_id/branches/:branch_id/roles/:role_name': read(onRole),
  'DELETE /projects/:project_id/branches/:branch_id/roles/:role_name': write(async (scene) => ({
    params: { role_name: await scene.makeRole() },
  })),
  'POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password': write(async (scene) => ({
    params: { role_name: await scene.makeRole() },
  })),
  'GET /projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password': {
    ...write(onRole),
    asksCompute: true,
  },

  'POST /projects/:project_id/branches/:branch_id/databases': write((scene) => ({
    body: { database: { name: scene.name(), owner_name: scene.role } },
  })),
  'GET /projects/:project_id/branches/:branch_id/databases': read(),
  'GET /projects/:project_id/branches/:branch_id/databases/:database_name': read(({ database }) => ({
    params: { database_name: database },
  })),
  'PATCH /projects/:project_id/branches/:branch_id/databases/:database_name': write(async (scene) => ({
    params: { database_name: await scene.makeDatabase() },
    body: { database: { name: scene.name() } },
  })),
  'DELETE /projects/:project_id/branches/:branch_id/databases/:database_name': write(async (scene) => ({
    params: { database_name: await scene.makeDatabase() },
  })),

  'POST /api_keys': admin((scene) => ({ body: { key_name: scene.name() } })),
  'GET /api_keys': admin(),
  'DELETE /api_keys/:key_id': admin(async (scene) => ({ params: { key_id: await scene.makeKey() } })),

  'POST /webhooks': admin(() => ({
    body: { webhook: { url: 'https://receiver.invalid/', events: ['branch.ready'] } },
  })),
  'GET /webhooks': admin(),
  'GET /webhooks/:webhook_id': admin(),
  'PATCH /webhooks/:webhook_id': admin(async (scene) => ({
    params: { webhook_id: await scene.makeWebhook() },
    body: { webhook: { events: ['branch.deleted'] } },
  })),
  'POST /webhooks/:webhook_id/rotate_secret': admin(async (scene) => ({
    params: { webhook_id: await scene.makeWebhook() },
  })),
  'DELETE /webhooks/:webhook_id': admin(async (scene) => ({ params: { webhook_id: await scene.makeWebhook() } })),
  'POST /webhooks/:webhook_id/test': admin(),
  'GET /webhooks/:webhook_id/deliveries': admin(),
  'POST /webhooks/:webhook_id/deliveries/:delivery_id/redeliver': admin(),

  'GET /audit': admin(),
  'GET /auth': read(),
  'GET /users/me': read(),
  'GET /users/me/organizations': read(),
  'PATCH /users/me': { ...read(() => ({ body: { user: { name: 'other' } } })), refusesKeys: true },
  'GET /users/me/password': { ...read(), refusesKeys: true },
  'POST /users/me/password': {
    ...read(() => ({ body: { new_password: 'several words of one' } })),
    refusesKeys: true,
  },
  'GET /users/me/identities': { ...read(), refusesKeys: true },
  'DELETE /users/me/identities/:identity_id': {
    ...read(),
    refusesKeys: true,
  },
  'GET /users/me/passkeys': { ...read(), refusesKeys: true },
  'POST /users/me/passkeys/options': { ...read(), refusesKeys: true },
  'POST /users/me/passkeys': {
    ...read(() => ({ body: { passkey: { name: 'phone', response: {} } } })),
    refusesKeys: true,
  },
  'PATCH /users/me/passkeys/:passkey_id': {
    ...read(() => ({ body: { passkey: { name: 'phone' } } })),
    refusesKeys: true,
  },
  'DELETE /users/me/passkeys/:passkey_id': { ...read(), refusesKeys: true },
  'DELETE /users/me/organizations/:org_id': { ...read(), refusesKeys: true },
  'POST /organizations': {
    ...read((scene) => ({ body: { organization: { name: scene.name() } } })),
    refusesKeys: true,
  },
  'PATCH /organizations/:org_id': admin((scene) => ({ body: { organization: { name: scene.name() } } })),
  'PATCH /organizations/:org_id/members/:member_id': admin(async (scene) => ({
    params: { member_id: await scene.makeMember() },
    body: { role: 'viewer' },
  })),
  'DELETE /organizations/:org_id/members/:member_id': admin(async (scene) => ({
    params: { member_id: await scene.makeMember() },
  })),
  'POST /organizations/:org_id/invitations': admin(() => ({
    body: { invitations: [{ role: 'editor', email: 'ada@example.com' }] },
  })),
  'DELETE /organizations/:org_id/invitations/:invitation_id': admin(async (scene) => ({
    params: { invitation_id: await scene.makeInvitation() },
  })),
  'GET /organizations/:org_id': read(),
  'GET /organizations/:org_id/members': read(),
  'GET /organizations/:org_id/members/:member_id': read(),
  'GET /organizations/:org_id/invitations': read(),
  'GET /organizations/:org_id/vpc/vpc_endpoints': read(),
  'POST /organizations/:org_id/api_keys': admin((scene) => ({ body: { key_name: scene.name() } })),
  'GET /organizations/:org_id/api_keys': admin(),
  'DELETE /organizations/:org_id/api_keys/:key_id': admin(async (scene) => ({
    params: { key_id: await scene.makeKey() },
  })),
  'GET /organizations/:org_id/vpc/region/:region_id/vpc_endpoints': read(),
  'GET /regions': read(),
  'GET /notices': read(),
  'GET /certificate_authority': read(),
  'GET /postgres_versions': read(),
  'GET /account': read(),
  'PATCH /account': admin(() => ({ body: { account: { projects_limit: null } } })),
  'GET /status': admin(),
}

/** The routes that admit keys. */
export const keyedRoutes = routes.filter(({ key }) => !EVERY_ROUTE[key].refusesKeys)
