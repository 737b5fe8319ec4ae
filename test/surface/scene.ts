import { newUuid } from '../../src/ids.ts'
import { catalogQuery } from '../admin.ts'
import { until } from '../processes.ts'
import type { Neap } from '../neap.ts'
import { makeWaitingLogin } from '../waiting_login.ts'
import { type Actor, done } from './account.ts'

/** The resources of one account, one of each kind, for use in requests. */
export interface Things {
  readonly organization_id: string
  readonly member_id: string
  readonly project_id: string
  readonly branch_id: string
  readonly endpoint_id: string
  readonly operation_id: string
  readonly snapshot_id: string
  readonly role: string
  readonly database: string
  readonly key_id: number
  readonly webhook_id: string
  readonly delivery_id: string
  readonly login_code: string
  readonly invitation_id: string
}

/** Resources for use in requests, and functions that create ones that a request may use up. */
export interface Scene extends Things {
  /** An unused name. */
  name(): string
  /** A new project, with its branch and endpoint. */
  project(): Promise<Pick<Things, 'project_id' | 'branch_id' | 'endpoint_id'>>
  /** A deleted project that can be recovered. */
  deletedProject(): Promise<string>
  /** A new branch, ready, without an endpoint; optionally of another project. */
  branch(projectId?: string): Promise<string>
  /** A deleted branch that can be recovered. */
  deletedBranch(): Promise<string>
  /** An anonymized branch whose data are still to be masked. */
  anonymizedBranch(): Promise<string>
  /** An endpoint on a new branch, which stays in this state. */
  endpoint(state?: 'active' | 'idle'): Promise<string>
  makeSnapshot(): Promise<string>
  /** A new branch made of a snapshot. */
  restoredBranch(): Promise<string>
  makeRole(): Promise<string>
  makeDatabase(): Promise<string>
  makeKey(): Promise<number>
  makeWebhook(): Promise<string>
  /** The code of a login that waits for approval. */
  waitingLogin(): Promise<string>
  /** A member of the organization besides its first. */
  makeMember(): Promise<string>
  makeInvitation(): Promise<string>
  /** A queued operation that has not begun. */
  waitingOperation(): Promise<string>
}

interface Made {
  readonly branch: { readonly id: string }
  readonly endpoints: readonly { readonly id: string }[]
  readonly operations: readonly { readonly id: string; readonly project_id: string }[]
}

let count = 0

/**
 * A scene of real resources, created over HTTP with the account's key.
 * @param waits whether to wait for their operations; false without a worker
 */
export async function realScene(neap: Neap, actor: Actor, { waits = true } = {}): Promise<Scene> {
  const post = (path: string, body?: unknown) => done(neap, actor.key, 'POST', path, body)
  const name = () => `thing_${process.pid}_${++count}`
  async function project() {
    const body = await post('/projects', { project: { name: name() } })
    const made = body as unknown as Made & { project: { id: string } }
    await ended(made.operations)
    return { project_id: made.project.id, branch_id: made.branch.id, endpoint_id: made.endpoints[0]?.id ?? '' }
  }
  /** Waits with this account's key: the owner of this Neap cannot see the account's operations. */
  async function ended(operations: Made['operations']): Promise<void> {
    if (!waits) return
    for (const { id, project_id } of operations) {
      await until(`the end of ${id}`, async () => {
        const body = await done(neap, actor.key, 'GET', `/projects/${project_id}/operations/${id}`)
        const { status, error } = body['operation'] as { status: string; error?: string }
        if (status === 'failed') throw new Error(`operation ${id} failed: ${error}`)
        return status === 'finished'
      })
    }
  }
  const place = await project()
  const base = `/projects/${place.project_id}`
  const inBranch = `${base}/branches/${place.branch_id}`
  async function branch(endpoints: object[] = [], of = base): Promise<Made> {
    const made = (await post(`${of}/branches`, { branch: { name: name() }, endpoints })) as unknown as Made
    await ended(made.operations)
    return made
  }
  const operations = await done(neap, actor.key, 'GET', `${base}/operations`)
  const { organizations } = (await done(neap, actor.key, 'GET', '/users/me/organizations')) as unknown as {
    organizations: { id: string }[]
  }
  const scene: Scene = {
    ...place,
    organization_id: organizations[0]?.id ?? '',
    member_id: actor.account_id,
    operation_id: (operations['operations'] as { id: string }[])[0]?.id ?? '',
    role: 'neondb_owner',
    database: 'neondb',
    snapshot_id: '',
    key_id: 0,
    webhook_id: '',
    delivery_id: '',
    login_code: '',
    invitation_id: '',
    name,
    project,
    async deletedProject() {
      const { project_id } = await project()
      await done(neap, actor.key, 'DELETE', `/projects/${project_id}`)
      return project_id
    },
    branch: async (of) => (await branch([], of && `/projects/${of}`)).branch.id,
    async deletedBranch() {
      const { id } = (await branch([])).branch
      await done(neap, actor.key, 'DELETE', `${base}/branches/${id}`)
      return id
    },
    async anonymizedBranch() {
      const made = (await post(`${base}/branch_anonymized`, {})) as unknown as Made
      await ended(made.operations)
      return made.branch.id
    },
    async endpoint(state = 'active') {
      const [endpoint] = (await branch([{ type: 'read_write' }])).endpoints
      if (state === 'idle') {
        const body = await post(`${base}/endpoints/${endpoint?.id}/suspend`)
        await ended((body as unknown as Made).operations)
      }
      return endpoint?.id ?? ''
    },
    async makeSnapshot() {
      const made = (await post(`${inBranch}/snapshot`)) as unknown as Made & { snapshot: { id: string } }
      await ended(made.operations)
      return made.snapshot.id
    },
    async restoredBranch() {
      const made = (await post(`${base}/snapshots/${await scene.makeSnapshot()}/restore`)) as unknown as Made
      await ended(made.operations)
      return made.branch.id
    },
    async makeRole() {
      const role = name()
      await ended(((await post(`${inBranch}/roles`, { role: { name: role } })) as unknown as Made).operations)
      return role
    },
    async makeDatabase() {
      const database = { name: name(), owner_name: 'neondb_owner' }
      await ended(((await post(`${inBranch}/databases`, { database })) as unknown as Made).operations)
      return database.name
    },
    async makeWebhook() {
      const webhook = { url: 'https://receiver.invalid/', events: ['branch.deleted'] }
      const made = (await post('/webhooks', { webhook })) as unknown as { webhook: { id: string } }
      // Leaves a delivery pending for days.
      await post(`/webhooks/${made.webhook.id}/test`)
      return made.webhook.id
    },
    async makeMember() {
      const id = newUuid()
      await catalogQuery(
        neap,
        `with made as (insert into person (id, name, email) values ($1, $2, $2 || '@example.com') returning id)
         insert into membership (account_id, person_id, role) select $3, id, 'editor' from made`,
        [id, name(), actor.account_id],
      )
      return id
    },
    async makeInvitation() {
      const body = { invitations: [{ role: 'editor' }] }
      const made = await post(`/organizations/${organizations[0]?.id}/invitations`, body)
      return (made as unknown as { invitations: { id: string }[] }).invitations[0]?.id ?? ''
    },
    makeKey: async () => Number((await post('/api_keys', { key_name: name() }))['id']),
    waitingLogin: async () => (await makeWaitingLogin(neap, place.endpoint_id, 'neondb_owner')).code,
    async waitingOperation() {
      // No worker knows this action, so the operation stays queued.
      const [operation] = await catalogQuery<{ id: string }>(
        neap,
        `with p as (update project set last_seq = last_seq + 1, last_operation_at = clock_timestamp()
                     where id = $1 returning *)
         insert into operation
           (id, account_id, project_id, seq, action, excludes, shares, step, deadline_seconds, created_at)
         select gen_random_uuid(), account_id, id, last_seq, 'wait', '{}', '{}', 'begun', 60, last_operation_at
           from p returning id`,
        [place.project_id],
      )
      return operation?.id ?? ''
    },
  }
  const webhook_id = await scene.makeWebhook()
  const { delivery } = (await post(`/webhooks/${webhook_id}/test`)) as unknown as { delivery: { id: string } }
  const [key_id, login_code] = [await scene.makeKey(), await scene.waitingLogin()]
  const [invitation_id, snapshot_id] = [await scene.makeInvitation(), await scene.makeSnapshot()]
  return { ...scene, snapshot_id, key_id, webhook_id, delivery_id: delivery.id, login_code, invitation_id }
}

/** A scene that always returns the same things, for requests that must be refused. */
export function fixedScene(things: Things): Scene {
  return {
    ...things,
    name: () => 'newcomer',
    project: async () => things,
    deletedProject: async () => things.project_id,
    branch: async () => things.branch_id,
    deletedBranch: async () => things.branch_id,
    anonymizedBranch: async () => things.branch_id,
    endpoint: async () => things.endpoint_id,
    makeSnapshot: async () => things.snapshot_id,
    restoredBranch: async () => things.branch_id,
    makeRole: async () => things.role,
    makeDatabase: async () => things.database,
    makeKey: async () => things.key_id,
    makeWebhook: async () => things.webhook_id,
    waitingLogin: async () => things.login_code,
    makeMember: async () => things.member_id,
    makeInvitation: async () => things.invitation_id,
    waitingOperation: async () => things.operation_id,
  }
}

/** Well-formed ids that do not exist. */
export const NOWHERE: Things = {
  organization_id: 'org-nowhere-isle-00000000',
  member_id: '00000000-0000-7000-8000-000000000003',
  project_id: 'nowhere-isle-00000000',
  branch_id: 'br-nowhere-isle-0aaaaaaa',
  endpoint_id: 'ep-nowhere-isle-0aaaaaaa',
  operation_id: '00000000-0000-7000-8000-000000000000',
  snapshot_id: 'snap-nowhere-isle-0aaaaaaa',
  role: 'nobody',
  database: 'nothing',
  key_id: 2 ** 40,
  webhook_id: '00000000-0000-7000-8000-000000000001',
  delivery_id: '00000000-0000-7000-8000-000000000002',
  login_code: '0000-0000',
  invitation_id: '00000000-0000-7000-8000-000000000004',
}
