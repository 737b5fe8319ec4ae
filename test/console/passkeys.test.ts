import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { catalogQuery } from '../admin.ts'
import { type Neap, startNeap } from '../neap.ts'
import { newVisit, type Visit, visitByLink } from '../person.ts'
import { expectAccessible, startBrowser, type Visitor, visitor, withoutBrowser } from './browser.ts'

/* Passkeys, with an authenticator that Chromium plays (Web Authentication Level 3, section 11). */

const skip = withoutBrowser
let neap: Neap
let browser: Browser
/** The console by a name: an IP address has no passkeys. */
let origin: string

before(async () => {
  if (skip) return
  neap = await startNeap()
  origin = `http://localhost:${new URL(neap.ready.api_url).port}`
  browser = await startBrowser()
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

/** A browser with an authenticator in it that has recognized its user. */
async function withAuthenticator(options?: BrowserContextOptions): Promise<Visitor> {
  const visit = await visitor(browser, neap, options)
  const cdp = await visit.context.newCDPSession(visit.page)
  await cdp.send('WebAuthn.enable')
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return visit
}

async function signInByLink({ page }: Visitor): Promise<void> {
  const { url } = await neap.call('POST /sign_in_links', {})
  await page.goto(`${origin}/${new URL(url).hash}`)
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
}

test('a passkey is added, signs in, is renamed, and signs in no more once removed', { skip }, async () => {
  const visit = await withAuthenticator()
  const { page, problems } = visit
  await signInByLink(visit)
  await page.goto(`${origin}/you`)
  await page.getByLabel('Name of the new passkey').fill('Laptop')
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('cell', { name: 'Laptop' }).waitFor()
  await expectAccessible(page)

  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
  await page.goto(`${origin}/you`)
  await page.getByText('by passkey').waitFor()
  const row = page.getByRole('row', { name: 'Laptop' })
  await row.getByRole('button', { name: 'Rename' }).click()
  await page.getByRole('dialog').getByRole('textbox', { name: 'Name' }).fill('<i>Desk</i>')
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click()
  const renamed = page.getByRole('row', { name: '<i>Desk</i>' })
  await renamed.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove passkey' }).click()
  await renamed.waitFor({ state: 'detached' })

  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('This passkey is not known here.').waitFor()
  assert.deepEqual(problems(), [])
  const { audit } = await neap.call('GET /audit', { query: { limit: 8 } })
  const actions = audit.map(({ action }) => action)
  for (const action of [
    'POST /users/me/passkeys',
    'PATCH /users/me/passkeys/:passkey_id',
    'DELETE /users/me/passkeys/:passkey_id',
  ])
    assert.ok(actions.includes(action), action)
})

test('at an address without a name the page says why there are no passkeys', { skip }, async () => {
  const { page, origin: byAddress } = await visitor(browser, neap)
  await page.goto((await neap.call('POST /sign_in_links', {})).url)
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
  await page.goto(`${byAddress}/you`)
  await page.getByText('Passkeys need a host name').waitFor()
})

/** What a browser's authenticator answered at the last sign-in, as the page sent it. */
async function captured(visit: Visitor): Promise<unknown> {
  const { page } = visit
  await signInByLink(visit)
  await page.goto(`${origin}/you`)
  await page.getByLabel('Name of the new passkey').fill('Captured')
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('cell', { name: 'Captured' }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  const sent = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/session'))
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
  return (await sent).postDataJSON()
}

test('an answer signs in once, and only at the site that asked', { skip }, async () => {
  const body = (await captured(await withAuthenticator())) as { passkey: { response: { clientDataJSON: string } } }
  const post = (visit: Visit, given: unknown, from = origin) =>
    visit.ask('POST', '//session', given, { origin: from, 'x-forwarded-host': new URL(from).host })
  assert.equal((await post(newVisit(neap), body)).status, 401, 'a challenge was answered twice')

  // A page of another site relays a fresh challenge: the answer is for its own name.
  const { options } = (
    await newVisit(neap).ask('POST', '//session/passkey', undefined, {
      origin,
      'x-forwarded-host': new URL(origin).host,
    })
  ).body as unknown as { options: { challenge: string } }
  const client = JSON.parse(Buffer.from(body.passkey.response.clientDataJSON, 'base64url').toString()) as object
  const forged = structuredClone(body)
  forged.passkey.response.clientDataJSON = Buffer.from(
    JSON.stringify({ ...client, challenge: options.challenge }),
  ).toString('base64url')
  assert.equal((await post(newVisit(neap), forged)).status, 401, 'a forged answer signed in')
  assert.equal((await post(newVisit(neap), body, 'http://evil.localhost')).status, 401)
  const noBrowser = await newVisit(neap).ask('POST', '//session/passkey')
  assert.deepEqual([noBrowser.status, noBrowser.body.code], [422, 'NOT_ALLOWED'])
})

test('challenges of one network take a bounded room', { skip }, async () => {
  const headers = { origin, 'x-forwarded-host': new URL(origin).host }
  await Promise.all(
    Array.from({ length: 40 }, () => newVisit(neap).ask('POST', '//session/passkey', undefined, headers)),
  )
  await newVisit(neap).ask('POST', '//session/passkey', undefined, headers)
  const [row] = await catalogQuery<{ count: string }>(neap, 'select count(*) from passkey_challenge')
  assert.ok(Number(row?.count) <= 20, row?.count)
})

test('a session that is not fresh adds no passkey; attestations with certificates are refused', { skip }, async () => {
  const visit = await visitByLink(neap)
  const headers = { origin, 'x-forwarded-host': new URL(origin).host }
  const add = (response: object) =>
    visit.ask('POST', '/users/me/passkeys', { passkey: { name: 'x', response } }, headers)
  const attestationObject = Buffer.from('a363666d74667061636b65646761747453746d74a068617574684461746140', 'hex')
  const response = { attestationObject: attestationObject.toString('base64url'), clientDataJSON: 'e30' }
  const packed = await add({ id: 'x', rawId: 'x', type: 'public-key', response })
  assert.deepEqual([packed.status, packed.body.code], [422, 'NOT_ALLOWED'])
  await catalogQuery(neap, "update person_session set created_at = now() - interval '16 minutes'")
  await (await visitByLink(neap)).done('DELETE', '//session')
  assert.equal((await visit.ask('POST', '/users/me/passkeys/options', undefined, headers)).status, 403)
  assert.equal((await add({})).status, 403)
})
