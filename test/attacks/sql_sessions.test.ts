import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { joined, newVisit, organizationOf, type Visit, visitByLink } from '../person.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/* SQL by the API outlives neither the rights of its caller nor the patience of the API. */

let neap: Neap
let place: Place
let owner: Visit
let path: string
let login: { role_name: string; database_name: string }

before(async () => {
  neap = await startNeap({ env: { NEAP_ORGANIZATIONS_LIMIT: '1' } })
  place = await firstPlace(neap)
  owner = await visitByLink(neap)
  path = `/projects/${place.project_id}/branches/${place.branch_id}/sql`
  const uri = new URL(place.uri)
  login = { role_name: decodeURIComponent(uri.username), database_name: uri.pathname.slice(1) }
})
after(() => neap?.stop())

const sleeping = async (): Promise<number> =>
  (await query(neap, place.uri, `select from pg_stat_activity where wait_event = 'PgSleep'`)).length

/** Starts a query that sends no rows. */
function quietQuery(visit: Visit, headers: Record<string, string> = {}) {
  const body = { ...login, sql: 'select pg_sleep(600)', timeout_seconds: 600 }
  return visit.ask('POST', path, body, headers)
}

async function memberNamed(name: string): Promise<string> {
  const { members } = await owner.done('GET', `/organizations/${await organizationOf(owner)}/members`)
  return (members as { member: { id: string }; user: { name: string } }[]).find(({ user }) => user.name === name)
    ?.member.id as string
}

async function endsAfter(began: Promise<{ text: string }>, revoke: () => Promise<unknown>): Promise<void> {
  await revoke()
  await until('the end of the query', async () => (await sleeping()) === 0)
  const { text } = await began
  assert.doesNotMatch(text, /"end"/)
  assert.match(text, /"message":"Your access ended while this ran/)
}

test('a quiet query ends with the key that began it', async () => {
  const made = (await owner.done('POST', '/api_keys', { key_name: 'k', scope: 'write' })) as { id: number; key: string }
  const began = quietQuery(newVisit(neap), { authorization: `Bearer ${made.key}` })
  await until('the query to run', async () => (await sleeping()) > 0)
  await endsAfter(began, () => owner.done('DELETE', `/api_keys/${made.id}`))
})

test('a quiet query ends when its member is removed, also one who stays a member elsewhere', async () => {
  const visit = await joined(neap, owner, 'editor', 'Removed')
  await visit.done('POST', '/organizations', { organization: { name: 'Elsewhere' } })
  const member = await memberNamed('Removed')
  const began = quietQuery(visit)
  await until('the query to run', async () => (await sleeping()) > 0)
  await endsAfter(began, async () =>
    owner.done('DELETE', `/organizations/${await organizationOf(owner)}/members/${member}`),
  )
})

test('a quiet query ends when its editor becomes a viewer', async () => {
  const visit = await joined(neap, owner, 'editor', 'Demoted')
  const member = await memberNamed('Demoted')
  const began = quietQuery(visit)
  await until('the query to run', async () => (await sleeping()) > 0)
  await endsAfter(began, async () =>
    owner.done('PATCH', `/organizations/${await organizationOf(owner)}/members/${member}`, { role: 'viewer' }),
  )
})

test('an answer that nobody reads keeps its place, and is cut off after the time limit', async () => {
  const leave = new AbortController()
  // In JSON each character takes six: more than the buffers of a connection.
  const unread = () =>
    fetch(`${neap.ready.api_url}${path}`, {
      method: 'POST',
      headers: { cookie: owner.cookie, 'neap-organization': '', 'content-type': 'application/json' },
      body: JSON.stringify({ ...login, sql: `select repeat(e'\\x01', 4190000)`, timeout_seconds: 10 }),
      signal: leave.signal,
    })
  const answers = await Promise.all([unread(), unread(), unread(), unread()])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  await until('the end of the sessions', async () => {
    const open = await query(neap, place.uri, `select from pg_stat_activity where application_name = 'Neap SQL'`)
    return open.length === 0
  })
  const one = () => owner.ask('POST', path, { ...login, sql: 'select 1' })
  assert.equal((await one()).status, 429)
  await until('a free place', async () => (await one()).status === 200)
  leave.abort()
})
