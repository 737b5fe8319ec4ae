import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { Provider } from 'oidc-provider'
import type { Browser, Page } from 'playwright-core'
import { type Neap, startNeap } from '../neap.ts'
import { invited, newVisit, visitByLink } from '../person.ts'
import { expectAccessible, startBrowser, type Visitor, visitor, withoutBrowser } from './browser.ts'

/*
 * Sign-in at a real OpenID Connect provider, oidc-provider, which is another site for the browser than the console. Its
 * people choose their email themselves, and none is verified.
 */

const skip = withoutBrowser
let neap: Neap
let browser: Browser
let server: Server
let answer = (_request: IncomingMessage, response: ServerResponse): unknown => response.writeHead(503).end()

before(async () => {
  if (skip) return
  server = createServer((request, response) => void answer(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`
  neap = await startNeap({
    env: { NEAP_OIDC_ISSUER: issuer, NEAP_OIDC_CLIENT_ID: 'neap', NEAP_OIDC_CLIENT_SECRET: 'a secret of the client' },
  })
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'neap',
        client_secret: 'a secret of the client',
        redirect_uris: [new URL('/session/oidc/callback', neap.ready.api_url).href],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: `${id} by name`, email: emailOf(id), email_verified: false }),
    }),
    cookies: { keys: ['a key of the test'] },
  })
  answer = provider.callback()
  browser = await startBrowser()
})

after(async () => {
  await browser?.close()
  await neap?.stop()
  server?.close()
  server?.closeAllConnections()
})

/** The person `claims-owner` says that the owner's email is his. */
const emailOf = (id: string) => (id === 'claims-owner' ? 'owner@neap.localhost' : `${id}@provider.example`)

const withProvider = (page: Page, verb = 'Sign in') => page.getByRole('button', { name: `${verb} with localhost` })

/** Signs in at the provider's own pages, as it is told there. */
async function atProvider(page: Page, login: string): Promise<void> {
  await page.getByPlaceholder('Enter any login').fill(login)
  await page.getByPlaceholder('and password').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
}

async function visitAs(login: string): Promise<Visitor> {
  const visit = await visitor(browser, neap)
  await visit.page.goto(visit.origin)
  await withProvider(visit.page).click()
  await atProvider(visit.page, login)
  return visit
}

// First: what is found out of a provider is kept.
test('a provider that is away is said to be, and asked again', { skip }, async () => {
  const there = answer
  answer = (_request, response) => response.writeHead(503).end()
  const { page, origin } = await visitor(browser, neap)
  await page.goto(origin)
  await withProvider(page).click()
  await page.getByText('The provider does not answer.').waitFor()
  answer = there
  await withProvider(page).click()
  await page.getByPlaceholder('Enter any login').waitFor()
})

test('a person whom the provider knows and Neap does not is told to ask for an invitation', { skip }, async () => {
  const { page, context, origin } = await visitAs('stranger')
  await page.getByText('Ask an admin of your organization for an invitation').waitFor()
  assert.equal(page.url(), `${origin}/`)
  await expectAccessible(page)
  assert.deepEqual(
    (await context.cookies(origin)).filter(({ name }) => name.startsWith('neap_session')),
    [],
  )
})

test('an email that the provider says gives no access to the person who has it', { skip }, async () => {
  const { page } = await visitAs('claims-owner')
  await page.getByRole('heading', { name: 'Sign in to Neap' }).waitFor()
  const token = await invited(await visitByLink(neap), 'viewer')
  const other = await visitor(browser, neap)
  await other.page.goto(`${other.origin}/invitation#${token}`)
  await withProvider(other.page, 'Join').click()
  await atProvider(other.page, 'claims-owner')
  await other.page.getByText('A person with your email signs in here otherwise.').waitFor()
})

test('an invited person joins by the provider, and signs in by it again', { skip }, async () => {
  const token = await invited(await visitByLink(neap), 'editor')
  const first = await visitor(browser, neap)
  await first.page.goto(`${first.origin}/invitation#${token}`)
  await withProvider(first.page, 'Join').click()
  await atProvider(first.page, 'ada')
  await first.page.getByRole('heading', { name: 'Projects' }).waitFor()
  await first.page.getByText('ada by name').waitFor()
  const again = await visitAs('ada')
  await again.page.getByRole('heading', { name: 'Projects' }).waitFor()
  await again.page.getByRole('link', { name: 'You' }).click()
  await again.page.getByText('ada', { exact: false }).first().waitFor()
  const { audit } = await neap.call('GET /audit', { query: { limit: 5 } })
  assert.ok(
    audit.some(({ action, person }) => action === 'GET /session/oidc/callback' && person?.name === 'ada by name'),
  )
  assert.deepEqual([...first.problems(), ...again.problems()], [])
})

test('a person connects an account of the provider, signs in by it, and disconnects it', { skip }, async () => {
  const { page, origin, problems } = await visitor(browser, neap)
  await page.goto((await neap.call('POST /sign_in_links', {})).url)
  await page.getByRole('link', { name: 'You' }).click()
  await page.getByRole('button', { name: 'Connect an account of localhost' }).click()
  await atProvider(page, 'owner-there')
  await page.getByRole('button', { name: 'Disconnect owner-there' }).waitFor()
  assert.equal(page.url(), `${origin}/you`)
  const other = await visitAs('owner-there')
  await other.page.getByText('Owner', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Disconnect owner-there' }).click()
  await page.getByRole('button', { name: 'Disconnect owner-there' }).waitFor({ state: 'detached' })
  const late = await visitAs('owner-there')
  await late.page.getByRole('heading', { name: 'Sign in to Neap' }).waitFor()
  assert.deepEqual(problems(), [])
})

test('a session that is ended while it connects an account leaves no way to sign in behind', { skip }, async () => {
  const { page, context, origin } = await visitor(browser, neap)
  await page.goto((await neap.call('POST /sign_in_links', {})).url)
  await page.getByRole('link', { name: 'You' }).click()
  await page.getByRole('button', { name: 'Connect an account of localhost' }).click()
  await page.getByPlaceholder('Enter any login').waitFor()
  const [cookie] = (await context.cookies(origin)).filter(({ name }) => name.startsWith('neap_session'))
  assert.ok(cookie)
  await newVisit(neap, `${cookie.name}=${cookie.value}`).done('DELETE', '//session')
  await atProvider(page, 'thief-there')
  await page.getByRole('heading', { name: 'Sign in to Neap' }).waitFor()
  const { identities } = await (await visitByLink(neap)).done('GET', '/users/me/identities')
  assert.ok(!JSON.stringify(identities).includes('thief-there'))
})

test('what the provider sends counts only in the browser that asked, once', { skip }, async () => {
  const { page, origin } = await visitor(browser, neap)
  await page.goto(origin)
  await withProvider(page).click()
  const back = page.waitForRequest((request) => request.url().includes('/session/oidc/callback'))
  await atProvider(page, 'ada')
  const { pathname, search } = new URL((await back).url())
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
  // Another browser follows the same address: without the secret, and with one of its own.
  const without = newVisit(neap)
  const started = newVisit(neap)
  await started.done('POST', '//session/oidc', {})
  for (const visit of [without, started]) {
    const response = await visit.ask('GET', `/${pathname}${search}`)
    assert.deepEqual([response.status, response.headers.get('location')], [303, '/#problem=failed'])
    assert.doesNotMatch(response.headers.get('set-cookie') ?? '', /neap_session_/)
  }
  const cookie = (await newVisit(neap).ask('POST', '//session/oidc', {})).headers.get('set-cookie') ?? ''
  for (const attribute of [/HttpOnly/i, /SameSite=Lax/i, /Path=\/session\/oidc/i]) assert.match(cookie, attribute)
})
