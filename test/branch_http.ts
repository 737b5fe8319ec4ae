import assert from 'node:assert/strict'
import { type Answer, send } from './http.ts'
import type { Neap } from './neap.ts'
import type { Place } from './project.ts'

interface Changed {
  readonly operations: readonly { readonly id: string; readonly project_id: string; readonly action: string }[]
  readonly role: { readonly name: string; readonly password: string }
  readonly database: { readonly name: string; readonly owner_name: string }
}

/** The roles and databases of a branch over HTTP. Names are URL-encoded in paths. */
export function branchHttp(neap: Neap, { project_id, branch_id }: Place) {
  const base = `/projects/${project_id}/branches/${branch_id}`

  const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
    send(neap, method, base + path, body === undefined ? {} : { body })

  /** Requests a change and checks the answer: 201 for a new resource, otherwise 200, and an apply_config operation. */
  async function begin(method: string, path: string, body?: unknown): Promise<Changed> {
    const answer = await ask(method, path, body)
    const status = method === 'POST' && !path.includes('/reset_password') ? 201 : 200
    assert.equal(answer.status, status, answer.body.message)
    const changed = answer.body as unknown as Changed
    assert.deepEqual(
      changed.operations.map(({ action }) => action),
      ['apply_config'],
    )
    return changed
  }

  /** As `begin`, and waits until the operation has ended. */
  async function change(method: string, path: string, body?: unknown): Promise<Changed> {
    const changed = await begin(method, path, body)
    await neap.ended(changed.operations)
    return changed
  }

  async function roles(): Promise<string[]> {
    const { body } = await ask('GET', '/roles')
    return (body['roles'] as { name: string }[]).map(({ name }) => name).sort()
  }

  /** Owners by database name. */
  async function databases(): Promise<Record<string, string>> {
    const { body } = await ask('GET', '/databases')
    const list = body['databases'] as { name: string; owner_name: string }[]
    return Object.fromEntries(list.map(({ name, owner_name }) => [name, owner_name]))
  }

  return { ask, begin, change, roles, databases }
}

export const rolePath = (name: string, verb = '') => `/roles/${encodeURIComponent(name)}${verb}`
export const databasePath = (name: string) => `/databases/${encodeURIComponent(name)}`

/** A connection URI as another role, or to another database. */
export function uriWith(uri: string, changes: { role?: string; password?: string; database?: string }): string {
  const url = new URL(uri)
  if (changes.role !== undefined) url.username = encodeURIComponent(changes.role)
  if (changes.password !== undefined) url.password = changes.password
  if (changes.database !== undefined) url.pathname = `/${encodeURIComponent(changes.database)}`
  return url.href
}
