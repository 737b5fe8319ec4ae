import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { routes } from '../../src/http/routes/index.ts'
import { type Neap, startNeap } from '../neap.ts'
import { openState, type State } from '../surface/state.ts'
import { signedIn, startBrowser, visitor, withoutBrowser } from './browser.ts'

/* Sessions against hostile pages, members with fewer rights, and hostile names. */

const skip = withoutBrowser
let neap: Neap
let state: State
let browser: Browser

before(async () => {
  if (skip) return
  neap = await startNeap()
  state = await openState(neap)
  browser = await startBrowser()
})

after(async () => {
  await browser?.close()
  await state?.close()
  await neap?.stop()
})

/** A session's cookie as a header. */
async function sessionCookie(): Promise<string> {
  const { context } = await signedIn(browser, neap)
  const [cookie] = await context.cookies()
  await context.close()
  assert.ok(cookie)
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/'])
  return `${cookie.name}=${cookie.value}`
}

const ask = (method: string, path: string, headers: Record<string, string>, body?: unknown) =>
  fetch(`${neap.ready.api_url}${path}`, {
    method,
    headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })

test('a cookie alone is no credential: other origins cannot send the header that it takes', { skip }, async () => {
  const cookie = await sessionCookie()
  assert.equal((await ask('GET', '/projects', { cookie })).status, 401)
  assert.equal((await ask('POST', '/projects', { cookie }, { project: {} })).status, 401)
  assert.equal((await ask('GET', '/projects', { cookie, 'neap-organization': '' })).status, 200)
  const preflight = await ask('OPTIONS', '/projects', {
    origin: 'http://127.0.0.1:9',
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'neap-organization',
  })
  assert.deepEqual(
    [...preflight.headers.keys()].filter((name) => name.startsWith('access-control')),
    [],
  )
})

test('a page of another origin can neither act by a session nor show the console in a frame', { skip }, async () => {
  const { context, origin } = await signedIn(browser, neap)
  const digest = await state.digest()
  const evil = await context.newPage()
  await evil.route('http://evil.localhost/**', (route) =>
    route.fulfill({ contentType: 'text/html', body: `<iframe src="${origin}/"></iframe>` }),
  )
  await evil.goto('http://evil.localhost/')
  const outcomes = await evil.evaluate(async (api) => {
    const attempt = (init: RequestInit) =>
      fetch(`${api}/projects`, { credentials: 'include', ...init }).then(
        () => 'answered',
        () => 'blocked',
      )
    return [
      await attempt({}),
      await attempt({
        method: 'POST',
        body: 'project[name]=x',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      }),
      await attempt({ method: 'POST', body: '{}', headers: { 'neap-organization': '' } }),
    ]
  }, neap.ready.api_url)
  assert.deepEqual(outcomes, ['blocked', 'blocked', 'blocked'])
  assert.equal(await state.digest(), digest)
  const framed = evil.frames().find((frame) => frame !== evil.mainFrame())
  assert.equal(await framed?.locator('#root').count(), 0)
})

test('a session is a new one at each sign-in, whatever the cookie was before', { skip }, async () => {
  const fixed = 'a'.repeat(43)
  const { context, page, origin } = await visitor(browser, neap)
  const name = `neap_session_${new URL(origin).port}`
  await context.addCookies([{ name, value: fixed, url: origin }])
  await page.goto((await neap.call('POST /sign_in_links', {})).url)
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
  const [cookie] = await context.cookies()
  assert.notEqual(cookie?.value, fixed)
})

test('members with fewer rights are refused, on every route', { skip }, async () => {
  const [person] = await state.query<{ person_id: string }>('select person_id from membership')
  const rank = { read: 0, write: 1, admin: 2 }
  for (const [role, has] of [
    ['viewer', 'read'],
    ['editor', 'write'],
  ] as const) {
    await state.query('update membership set role = $1 where person_id = $2', [role, person?.person_id])
    const headers = { cookie: await sessionCookie(), 'neap-organization': '' }
    const digest = await state.digest()
    for (const { key, scope } of routes) {
      const [method, template] = key.split(' ') as [string, string]
      const needs = scope ?? (method === 'GET' ? 'read' : 'write')
      if (rank[needs] <= rank[has]) continue
      const { status } = await ask(
        method,
        template.replaceAll(/:\w+/g, '1'),
        headers,
        method === 'GET' ? undefined : {},
      )
      assert.equal(status, 403, `${role}: ${key}`)
    }
    assert.equal(await state.digest(), digest)
  }
  await state.query("update membership set role = 'admin' where person_id = $1", [person?.person_id])
})

test('another organization is not found, and its projects neither', { skip }, async () => {
  const id = '00000000-0000-4000-8000-000000000001'
  await state.query(
    `insert into account (id, organization_id, name, email, plan)
     values ($1, 'org-of-others', 'o', 'o@example.com', 'paid')`,
    [id],
  )
  await state.query(`insert into person (id, name, email) values ($1, 'a stranger', 's@example.com')`, [id])
  await state.query(`insert into membership (account_id, person_id, role) values ($1, $1, 'admin')`, [id])
  const cookie = await sessionCookie()
  assert.equal((await ask('GET', '/projects', { cookie, 'neap-organization': 'org-of-others' })).status, 404)
  const token = 'b'.repeat(43)
  await state.query(
    `insert into person_session (person_id, hash, expires_at)
     values ($1, sha256($2::text::bytea), now() + interval '1 day')`,
    [id, token],
  )
  const stranger = { cookie: `${cookie.split('=')[0]}=${token}`, 'neap-organization': '' }
  assert.equal((await ask('GET', '/users/me', stranger)).status, 200)
  assert.equal((await ask('GET', `/projects/${neap.ready.project_id}`, stranger)).status, 404)
  assert.equal((await ask('DELETE', `/projects/${neap.ready.project_id}`, stranger)).status, 404)
})

test('hostile names are shown as texts', { skip }, async () => {
  const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
  const { page, origin, problems } = await signedIn(browser, neap)
  const { project } = await neap.call('POST /projects', { body: { project: { name: hostile.slice(0, 60) } } })
  const { operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: project.id },
    body: { branch: { name: hostile } },
  })
  await neap.call('POST /api_keys', { body: { key_name: hostile.slice(0, 60), scope: 'read' } })
  await page.goto(origin)
  await page.getByRole('link', { name: hostile.slice(0, 60) }).click()
  await page.getByRole('link', { name: hostile }).waitFor()
  await page.goto(`${origin}/keys`)
  await page.getByRole('cell', { name: hostile.slice(0, 60) }).waitFor()
  assert.equal(await page.title(), 'Neap')
  assert.equal(await page.locator('img[src=x]').count(), 0)
  assert.deepEqual(problems(), [])
  await neap.ended(operations)
})

test('pages let no script in but their own, and hold no secret', { skip }, async () => {
  const { origin } = new URL(neap.ready.api_url)
  for (const path of ['/', '/projects/x', '/keys', '/account/audit', '/sessions']) {
    const response = await fetch(origin + path)
    const policy = response.headers.get('content-security-policy') ?? ''
    assert.match(policy, /default-src 'none'; script-src 'self';/)
    assert.match(policy, /frame-ancestors 'none'/)
    assert.doesNotMatch(policy, /unsafe/)
    assert.doesNotMatch(await response.text(), /neap_|npg_|<script>/)
  }
})
