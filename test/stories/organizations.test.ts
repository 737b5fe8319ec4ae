import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { emailOf, invited, joined, newVisit, organizationOf, passwordOf, type Visit, visitByLink } from '../person.ts'

/* Organizations: their creation, their members, and the rights of each role. */

let neap: Neap
let owner: Visit
let organization: string

before(async () => {
  neap = await startNeap({ env: { NEAP_ORGANIZATIONS_LIMIT: '1' } })
  owner = await visitByLink(neap)
  organization = await organizationOf(owner)
})
after(() => neap?.stop())

interface Listed {
  readonly member: { readonly id: string; readonly role: string }
  readonly user: { readonly name: string; readonly email: string }
}

async function members(visit: Visit): Promise<Listed[]> {
  const { members: found } = await visit.done('GET', `/organizations/${await organizationOf(visit)}/members`)
  return found as Listed[]
}

async function memberNamed(name: string): Promise<string> {
  return (await members(owner)).find(({ user }) => user.name === name)?.member.id ?? ''
}

const change = (visit: Visit, method: string, id: string, body?: object) =>
  visit.ask(method, `/organizations/${organization}/members/${id}`, body)

test('an invitation makes a person, once, with its role', async () => {
  const token = await invited(owner, 'viewer')
  const look = await newVisit(neap).ask('POST', '//invitation', { token })
  assert.deepEqual(
    [look.body['organization'], look.body['role'], look.body['invited_by']],
    ['Owner', 'viewer', 'Owner'],
  )
  assert.equal(look.headers.get('cache-control'), 'no-store')
  const visit = newVisit(neap)
  const ada = { token, name: 'Ada', email: 'ada@example.com', password: passwordOf('Ada') }
  const weak = await visit.ask('POST', '//invitation/join', { ...ada, password: 'short' })
  assert.deepEqual([weak.status, weak.body.code], [422, 'NOT_ALLOWED'])
  await visit.done('POST', '//invitation/join', ada)
  assert.equal((await visit.done('GET', '/users/me'))['name'], 'Ada')
  assert.deepEqual(
    (await members(visit)).map(({ member, user }) => [user.name, member.role]),
    [
      ['Owner', 'admin'],
      ['Ada', 'viewer'],
    ],
  )
  assert.equal((await visit.ask('POST', '/projects', { project: {} })).status, 403)
  const again = { ...ada, email: 'second@example.com' }
  assert.equal((await newVisit(neap).ask('POST', '//invitation/join', again)).status, 404)
})

test('the email of another person is refused, and the invitation stays', async () => {
  const token = await invited(owner, 'viewer')
  const asked = { token, name: 'X', email: 'OWNER@neap.localhost', password: passwordOf('X') }
  const answer = await newVisit(neap).ask('POST', '//invitation/join', asked)
  assert.deepEqual([answer.status, answer.body.code], [409, 'CONFLICT'])
  assert.equal((await newVisit(neap).ask('POST', '//invitation', { token })).status, 200)
})

test('invitations are listed without their tokens, revoked, and expire', async () => {
  const tokens = [await invited(owner, 'editor'), await invited(owner, 'admin')]
  const list = await owner.ask('GET', `/organizations/${organization}/invitations`)
  for (const token of tokens) assert.ok(!list.text.includes(token))
  const [latest] = list.body['invitations'] as { id: string; role: string; invited_by_name: string }[]
  assert.deepEqual([latest?.role, latest?.invited_by_name], ['admin', 'Owner'])
  await owner.done('DELETE', `/organizations/${organization}/invitations/${latest?.id}`)
  const look = (token?: string) => newVisit(neap).ask('POST', '//invitation', { token })
  assert.equal((await look(tokens[1])).status, 404)
  await catalogQuery(neap, "update invitation set expires_at = now() - interval '1 second'")
  const expired = await look(tokens[0])
  assert.equal(expired.status, 404)
  assert.match(expired.body.message ?? '', /Ask for another/)
  const late = { invitations: [{ role: 'viewer', expires_at: new Date(Date.now() + 31 * 86_400_000).toISOString() }] }
  assert.equal((await owner.ask('POST', `/organizations/${organization}/invitations`, late)).status, 422)
})

test('who has signed in joins by the invitation as he is, and a member already keeps it for another', async () => {
  const visit = await joined(neap, owner, 'editor', 'Grace')
  const other = (await visit.done('POST', '/organizations', { organization: { name: 'Of Grace' } })) as { id: string }
  const hers = newVisit(neap, visit.cookie)
  hers.organization = other.id
  const token = await invited(hers, 'viewer')
  assert.equal((await hers.ask('POST', '//invitation/accept', { token })).status, 409)
  assert.equal((await newVisit(neap).ask('POST', '//invitation/accept', { token })).status, 401)
  const { organization_id } = await owner.done('POST', '//invitation/accept', { token })
  assert.equal(organization_id, other.id)
  const { organizations } = (await owner.done('GET', '/users/me/organizations')) as {
    organizations: { id: string; role: string }[]
  }
  assert.deepEqual(
    organizations.map(({ id, role }) => [id, role]),
    [
      [organization, 'admin'],
      [other.id, 'viewer'],
    ],
  )
  assert.equal((await owner.ask('GET', '/projects')).status, 200)
  const there = newVisit(neap, owner.cookie)
  there.organization = other.id
  assert.deepEqual((await there.done('GET', '/projects'))['projects'], [])
  assert.equal((await there.ask('POST', '/projects', { project: {} })).status, 403)
})

test('a role that is changed counts at the next request', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Rising')
  assert.equal((await visit.ask('GET', '/api_keys')).status, 403)
  assert.equal((await change(owner, 'PATCH', await memberNamed('Rising'), { role: 'admin' })).status, 200)
  assert.equal((await visit.ask('GET', '/api_keys')).status, 200)
  assert.equal((await change(visit, 'PATCH', await memberNamed('Rising'), { role: 'viewer' })).status, 200)
  assert.equal((await visit.ask('GET', '/api_keys')).status, 403)
})

test('a member who is removed or leaves is out at the next request, and can still sign out', async () => {
  const removed = await joined(neap, owner, 'editor', 'Removed')
  assert.equal((await change(owner, 'DELETE', await memberNamed('Removed'))).status, 200)
  const answer = await removed.ask('GET', '/projects')
  assert.deepEqual([answer.status, answer.body.code], [403, 'FORBIDDEN'])
  assert.match(answer.body.message ?? '', /member of no organization/)
  assert.equal((await removed.ask('DELETE', '//session')).status, 204)
  const leaver = await joined(neap, owner, 'viewer', 'Leaver')
  await leaver.done('DELETE', `/users/me/organizations/${organization}`)
  assert.equal((await leaver.ask('GET', '/projects')).status, 403)
  assert.equal(await memberNamed('Leaver'), '')
})

test('an admin who is removed, or is one no more, gets back by no invitation of his own', async () => {
  const look = (token: string) => newVisit(neap).ask('POST', '//invitation', { token })
  const kept = await invited(owner, 'viewer')
  for (const [name, end] of [
    ['Removed Admin', (id: string) => change(owner, 'DELETE', id)],
    ['Former Admin', (id: string) => change(owner, 'PATCH', id, { role: 'viewer' })],
  ] as const) {
    const visit = await joined(neap, owner, 'admin', name)
    const token = await invited(visit, 'admin')
    assert.equal((await look(token)).status, 200)
    assert.equal((await end(await memberNamed(name))).status, 200)
    assert.equal((await look(token)).status, 404)
    assert.equal((await visit.ask('POST', '//invitation/accept', { token })).status, 404)
  }
  assert.equal((await look(kept)).status, 200)
})

test('the only admin neither leaves, is removed nor loses the role, two at once included', async () => {
  const me = await memberNamed('Owner')
  const leave = (visit: Visit) => visit.ask('DELETE', `/users/me/organizations/${organization}`)
  for (const answer of [
    await change(owner, 'DELETE', me),
    await change(owner, 'PATCH', me, { role: 'viewer' }),
    await leave(owner),
  ])
    assert.deepEqual([answer.status, answer.body.code], [422, 'NOT_ALLOWED'])
  const second = await joined(neap, owner, 'admin', 'Second Admin')
  const both = await Promise.all([leave(owner), leave(second)])
  assert.deepEqual(
    both.map(({ status }) => status).sort((a, b) => a - b),
    [200, 422],
  )
  // The operator gets in again from the machine, as an admin.
  if (both[0]?.status === 200) {
    const params = { org_id: organization }
    const body = { invitations: [{ role: 'admin' }] }
    const { invitations } = await neap.call('POST /organizations/:org_id/invitations', { params, body })
    await owner.done('POST', '//invitation/accept', { token: invitations[0]?.url.split('#')[1] })
    owner.organization = organization
  }
  assert.equal((await owner.ask('GET', '/api_keys')).status, 200)
})

test('organizations are created within the limit, and renamed by their admins', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Founder')
  const create = (name: string) => visit.ask('POST', '/organizations', { organization: { name } })
  const made = await Promise.all([create('One'), create('Two')])
  assert.deepEqual(
    made.map(({ status }) => status).sort((a, b) => a - b),
    [201, 403],
  )
  assert.match(made.find(({ status }) => status === 403)?.body.message ?? '', /as many as you may/)
  const { creation_refused } = await visit.done('GET', '/users/me/organizations')
  assert.match(String(creation_refused), /as many as you may/)
  const id = made.find(({ status }) => status === 201)?.body['id'] as string
  const rename = (name: string) => visit.ask('PATCH', `/organizations/${id}`, { organization: { name } })
  // Until the header names it, the other organization is not found.
  assert.equal((await visit.ask('GET', `/organizations/${id}`)).status, 404)
  visit.organization = id
  assert.equal((await rename('Renamed')).body['name'], 'Renamed')
  visit.organization = ''
  const own = await visit.ask('PATCH', `/organizations/${organization}`, { organization: { name: 'Mine now' } })
  assert.equal(own.status, 403)
})

test('the plan and the limits of an organization are the operator’s', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Ambitious')
  const { id } = (await visit.done('POST', '/organizations', { organization: { name: 'Grown' } })) as { id: string }
  visit.organization = id
  const more = { account: { projects_limit: 1_000_000 } }
  const answer = await visit.ask('PATCH', '/account', more)
  assert.deepEqual([answer.status, answer.body.code], [403, 'FORBIDDEN'])
  const { key } = (await visit.done('POST', '/api_keys', { key_name: 'k', scope: 'admin' })) as { key: string }
  assert.equal((await newVisit(neap).ask('PATCH', '/account', more, { authorization: `Bearer ${key}` })).status, 403)
  const { data_dir } = neap.ready
  const run = (...args: string[]) => neapRun([...args, '--data-dir', data_dir], envOf(data_dir))
  const { code, stdout } = await run('account', 'update', '--organization', id, '--projects-limit', '3')
  assert.equal(code, 0)
  assert.match(stdout, /NAME +Grown\n(.*\n)*PROJECTS +0 of 3$/m)
  assert.match((await run('account', 'get')).stdout, /NAME +Owner/)
})

test('a stranger reaches neither the members nor the invitations of an organization', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Stranger')
  const { id } = (await visit.done('POST', '/organizations', { organization: { name: 'Elsewhere' } })) as { id: string }
  await visit.done('DELETE', `/users/me/organizations/${organization}`)
  const me = await memberNamed('Owner')
  for (const header of ['', id, organization]) {
    visit.organization = header
    for (const [method, path, body] of [
      ['GET', '/members'],
      ['PATCH', `/members/${me}`, { role: 'viewer' }],
      ['DELETE', `/members/${me}`],
      ['GET', '/invitations'],
      ['POST', '/invitations', { invitations: [{ role: 'admin' }] }],
      ['PATCH', '', { organization: { name: 'Taken' } }],
    ] as const)
      assert.equal((await visit.ask(method, `/organizations/${organization}${path}`, body)).status, 404, path)
  }
})

test('an email belongs to one person, and is changed to a free one', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Email Person')
  const set = (email: string) => visit.ask('PATCH', '/users/me', { user: { email } })
  assert.equal((await set('Owner@Neap.localhost')).status, 409)
  assert.equal((await set('no at sign')).status, 400)
  assert.equal((await set(emailOf('Email Person').toUpperCase())).status, 200)
  assert.equal((await set('new@example.com')).status, 200)
  assert.equal((await visit.done('GET', '/users/me'))['email'], 'new@example.com')
  const other = await joined(neap, owner, 'viewer', 'Other Email Person')
  for (let turn = 0; turn < 20; turn++) {
    const user = { email: `wanted-${turn}@example.com` }
    const both = await Promise.all([visit, other].map((each) => each.ask('PATCH', '/users/me', { user })))
    assert.deepEqual(
      both.map(({ status }) => status).sort((a, b) => a - b),
      [200, 409],
    )
  }
})
