import { join } from 'node:path'
import { newOrganizationId, newUuid } from '../../src/ids.ts'
import { newApiKey } from '../../src/secrets/generated.ts'
import { loadOrCreateSecrets } from '../../src/secrets/secrets.ts'
import { catalogQuery } from '../admin.ts'
import { send } from '../http.ts'
import type { Neap } from '../neap.ts'

export type Scope = 'read' | 'write' | 'admin'

/** An account of a test: a key with the scope admin, and its id for queries in the catalog. */
export interface Actor {
  readonly account_id: string
  readonly key: string
}

/** The account that owns this Neap. */
export async function owner(neap: Neap): Promise<Actor> {
  const [row] = await catalogQuery<{ id: string }>(neap, 'select id from account where is_default')
  if (!row || !neap.ready.api_key) throw new Error('this Neap has no owner with a key')
  return { account_id: row.id, key: neap.ready.api_key }
}

/** Creates another account with its first member in the catalog, and a key for it. */
export async function otherAccount(neap: Neap, name: string): Promise<Actor> {
  const id = newUuid()
  await catalogQuery(
    neap,
    `insert into account (id, organization_id, name, email, plan) values ($1, $2, $3, $4, 'paid')`,
    [id, newOrganizationId(), name, `${name}@neap.localhost`],
  )
  await catalogQuery(
    neap,
    `with made as (insert into person (id, name, email) values ($1, $2, $3) returning id)
     insert into membership (account_id, person_id, role) select id, id, 'admin' from made`,
    [id, name, `${name}@neap.localhost`],
  )
  return { account_id: id, key: await keyOf(neap, id, 'admin') }
}

/** Creates a key in the catalog, optionally restricted to a project. */
export async function keyOf(neap: Neap, accountId: string, scope: Scope, projectId?: string): Promise<string> {
  const key = newApiKey()
  const secrets = await loadOrCreateSecrets(join(neap.ready.data_dir, 'secret.key'))
  const [{ hash, generation }] = secrets.hashApiKey(key)
  await catalogQuery(
    neap,
    'insert into api_key (account_id, name, scope, project_id, hash, generation) values ($1, $2, $3, $4, $5, $6)',
    [accountId, `${scope} key`, scope, projectId ?? null, hash, generation],
  )
  return key
}

/** Sends a request that must succeed, and returns its body. */
export async function done(neap: Neap, key: string, method: string, path: string, body?: unknown) {
  const answer = await send(neap, method, path, { key, ...(body !== undefined && { body }) })
  if (answer.status >= 300) throw new Error(`${method} ${path} answered ${answer.status}: ${answer.body.message}`)
  return answer.body
}
