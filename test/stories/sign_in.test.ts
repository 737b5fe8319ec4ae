import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { type Neap, startNeap } from '../neap.ts'
import { emailOf, invited, joined, newVisit, passwordOf, type Visit, visitByLink } from '../person.ts'
import { until } from '../processes.ts'

/* Ways to sign in: links, passwords, and the limit of guesses. */

let neap: Neap
let owner: Visit

before(async () => {
  neap = await startNeap()
  owner = await visitByLink(neap)
})
after(() => neap?.stop())

const signIn = (email: string, password: string, visit = newVisit(neap)) =>
  visit.ask('POST', '//session', { email, password })

const refused = async () =>
  (await neap.call('GET /audit', { query: { limit: 1 } })).refused?.filter(({ kind }) => kind === 'sign_in') ?? []

test('a person signed in by a link sets a password, and signs in by it', async () => {
  const other = await visitByLink(neap)
  await owner.done('POST', '/users/me/password', { new_password: 'a first password here' })
  assert.equal((await other.ask('GET', '/users/me')).status, 401, 'another session goes on')
  assert.equal((await owner.ask('GET', '/users/me')).status, 200)
  const visit = newVisit(neap)
  assert.equal((await signIn('OWNER@neap.localhost', 'a first password here', visit)).status, 204)
  assert.equal((await visit.done('GET', '/users/me'))['email'], 'owner@neap.localhost')
  const { sessions } = (await visit.done('GET', '/users/me/sessions')) as { sessions: { method: string }[] }
  assert.deepEqual(sessions.map(({ method }) => method).sort(), ['link', 'password'])
})

test('no password and no hash of one is in an answer, a reply that is kept, or a row of the audit', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Kept Secret')
  await visit.ask(
    'POST',
    '/users/me/password',
    { new_password: 'words that are kept by no one' },
    {
      'idempotency-key': 'the same',
    },
  )
  const kept = await catalogQuery(neap, "select 1 from idempotency_key where key = 'the same'")
  assert.deepEqual(kept, [])
  const { text } = await visit.ask('GET', '/users/me')
  assert.doesNotMatch(text, /argon2|hash/)
})

test('a session by password changes the password only with the current one', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Changing Person')
  const now = passwordOf('Changing Person')
  await signIn(emailOf('Changing Person'), now, visit)
  const set = (body: object) => visit.ask('POST', '/users/me/password', body)
  assert.equal((await set({ new_password: 'another long password' })).status, 403)
  const wrong = await set({ current_password: 'wrong', new_password: 'another long password' })
  assert.deepEqual([wrong.status, wrong.body.code], [403, 'FORBIDDEN'])
  assert.equal((await set({ current_password: now, new_password: 'another long password' })).status, 200)
  assert.equal((await signIn(emailOf('Changing Person'), now)).status, 401)
  assert.equal((await signIn(emailOf('Changing Person'), 'another long password')).status, 204)
})

test('a session by link that is no longer fresh needs the current password too', async () => {
  const visit = await joined(neap, owner, 'viewer', 'Stale Person')
  await catalogQuery(
    neap,
    `update person_session set method = 'link', created_at = now() - interval '16 minutes'
      where person_id = (select id from person where name = 'Stale Person')`,
  )
  // Deleting a session drops what the API has cached of others.
  await (await visitByLink(neap)).done('DELETE', '//session')
  assert.equal((await visit.ask('POST', '/users/me/password', { new_password: 'another long one' })).status, 403)
})

test('short passwords and those that follow from the email are refused with what makes a good one', async () => {
  for (const new_password of ['elevenchars', 'aaaaaaaaaaaaaaaa', 'owner@neap.localhost1']) {
    const answer = await owner.ask('POST', '/users/me/password', { new_password })
    assert.deepEqual([answer.status, answer.body.code], [422, 'NOT_ALLOWED'], new_password)
    assert.match(answer.body.message ?? '', /[Ww]ords/)
  }
})

test('an unknown email, a person without a password and a wrong password are answered alike', async () => {
  await joined(neap, owner, 'viewer', 'Real Person')
  await catalogQuery(neap, `insert into person (id, name, email) values (gen_random_uuid(), 'n', 'none@example.com')`)
  const answers = []
  for (const email of [emailOf('Real Person'), 'none@example.com', 'unknown@example.com']) {
    const { status, headers, body } = await signIn(email, 'not the password')
    const names = [...headers.keys()].filter((name) => name !== 'date')
    answers.push({ status, names, code: body.code, message: body.message })
  }
  assert.equal(answers[0]?.status, 401)
  assert.deepEqual(answers[1], answers[0])
  assert.deepEqual(answers[2], answers[0])
})

test('a refused sign-in is in the audit list of the organizations of its person', async () => {
  await joined(neap, owner, 'editor', 'Guessed Person')
  for (let guess = 0; guess < 2; guess++) await signIn(emailOf('Guessed Person'), `guess ${guess} is wrong`)
  const found = await until('the refusals are counted', async () =>
    (await refused()).find(({ person, count }) => person?.name === 'Guessed Person' && count === 2),
  )
  assert.deepEqual([found.person?.email, found.network], [emailOf('Guessed Person'), '127.0.0.1'])
})

test('guesses of one person are slowed down, others sign in meanwhile, and a link always works', async () => {
  await joined(neap, owner, 'viewer', 'Hammered Person')
  await joined(neap, owner, 'viewer', 'Calm Person')
  const guesses = await Promise.all(
    Array.from({ length: 14 }, (_, guess) => signIn(emailOf('Hammered Person'), `guess ${guess} is wrong`)),
  )
  assert.ok(guesses.filter(({ status }) => status === 401).length <= 10)
  const late = await signIn(emailOf('Hammered Person'), passwordOf('Hammered Person'))
  assert.deepEqual([late.status, late.body.code], [429, 'RATE_LIMITED'])
  assert.match(late.body.message ?? '', /sign in by a link/)
  assert.equal((await signIn(emailOf('Calm Person'), passwordOf('Calm Person'))).status, 204)
  await visitByLink(neap, emailOf('Hammered Person'))
})

test('signing in needs the header that other origins cannot send', async () => {
  const { api_url } = neap.ready
  const origin = new URL(api_url).origin
  for (const path of ['/session', '/invitation', '/invitation/join', '/invitation/accept']) {
    const response = await fetch(origin + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token: 'x', email: 'a@b.c', password: 'x', name: 'x' }),
    })
    assert.equal(response.status, 403, path)
  }
})

test('each sign-in has a new token, and the cookie is for this origin and no script', async () => {
  await joined(neap, owner, 'viewer', 'Cookie Person')
  const visit = newVisit(neap, `neap_session_${new URL(neap.ready.api_url).port}=${'a'.repeat(43)}`)
  const { headers } = await signIn(emailOf('Cookie Person'), passwordOf('Cookie Person'), visit)
  const cookie = headers.get('set-cookie') ?? ''
  assert.match(cookie, /^neap_session_\d+=[0-9A-Za-z]{43};/)
  for (const attribute of [/HttpOnly/i, /SameSite=Strict/i, /Path=\//i]) assert.match(cookie, attribute)
  assert.doesNotMatch(cookie, /Domain|a{43}/i)
})

test('a person has a hundred sessions at most', async () => {
  await joined(neap, owner, 'viewer', 'Busy Person')
  await catalogQuery(
    neap,
    `insert into person_session (person_id, hash, expires_at, last_used_at)
     select id, sha256(n::text::bytea), now() + interval '1 day', now() - interval '1 hour'
       from person, generate_series(1, 150) n where name = 'Busy Person'`,
  )
  await signIn(emailOf('Busy Person'), passwordOf('Busy Person'))
  const [row] = await catalogQuery<{ count: string }>(
    neap,
    `select count(*) from person_session s join person p on p.id = s.person_id where p.name = 'Busy Person'`,
  )
  assert.equal(Number(row?.count), 100)
})

test('what a person does of himself is audited in each of his organizations', async () => {
  const visit = await joined(neap, owner, 'editor', 'Member Of Two')
  const { id } = (await owner.done('POST', '/organizations', { organization: { name: 'Second' } })) as { id: string }
  const second = newVisit(neap, owner.cookie)
  second.organization = id
  await visit.done('POST', '//invitation/accept', { token: await invited(second, 'viewer') })
  await visit.done('PATCH', '/users/me', { user: { name: 'Renamed' } })
  await visit.done('DELETE', '//session')
  await signIn(emailOf('Member Of Two'), passwordOf('Member Of Two'))
  for (const admin of [owner, second]) {
    const { audit } = (await admin.done('GET', '/audit?limit=10')) as {
      audit: { action: string; person?: { name: string } }[]
    }
    const own = audit.filter(({ person }) => person?.name === 'Renamed').map(({ action }) => action)
    assert.deepEqual(own.slice(0, 3), ['POST /session', 'DELETE /session', 'PATCH /users/me'])
  }
})
