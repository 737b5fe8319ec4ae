import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Neap, neapRun, startNeap, envOf } from '../neap.ts'
import { signedIn, startBrowser, visitor, withoutBrowser } from './browser.ts'

/* How people come into the console and leave it. */

const skip = withoutBrowser
let neap: Neap
let browser: Browser

before(async () => {
  if (skip) return
  neap = await startNeap()
  browser = await startBrowser()
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

test('the link that neap up prints signs in once, and leaves no token in the address', { skip }, async () => {
  const { page, origin, problems } = await visitor(browser, neap)
  await page.goto(neap.ready.console_url)
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
  assert.equal(page.url(), `${origin}/`)
  await page.getByRole('link', { name: 'first' }).waitFor()
  await page.reload()
  await page.getByRole('link', { name: 'first' }).waitFor()
  assert.deepEqual(problems(), [])

  const second = await visitor(browser, neap)
  await second.page.goto(neap.ready.console_url)
  await second.page.getByText('The link was used already, or has expired.').waitFor()
  await second.page.getByRole('heading', { name: 'Sign in to Neap' }).waitFor()
})

test('neap sign-in makes another link', { skip }, async () => {
  const { data_dir } = neap.ready
  const { stdout, code } = await neapRun(['sign-in', '--data-dir', data_dir], envOf(data_dir))
  assert.equal(code, 0)
  const { page } = await visitor(browser, neap)
  await page.goto(stdout.trim())
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
})

test('signing out ends the session', { skip }, async () => {
  const { page, context, origin } = await signedIn(browser, neap)
  const cookies = await context.cookies()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to Neap' }).waitFor()
  // The token itself is void, not only gone from this browser.
  await context.addCookies(cookies)
  await page.goto(origin)
  await page.getByRole('heading', { name: 'Sign in to Neap' }).waitFor()
})

test('a session that is ended elsewhere is signed out at its next request', { skip }, async () => {
  const one = await signedIn(browser, neap, { userAgent: 'the first browser' })
  const other = await signedIn(browser, neap)
  await other.page.getByRole('link', { name: 'You' }).click()
  const row = other.page.getByRole('row', { name: 'the first browser' })
  await row.getByRole('button', { name: 'End' }).click()
  await row.waitFor({ state: 'detached' })
  await one.page.getByRole('link', { name: 'You' }).click()
  await one.page.getByRole('heading', { name: 'Sign in to Neap' }).waitFor()
  assert.deepEqual(other.problems(), [])
})

test('what a session does is in the audit list under its person', { skip }, async () => {
  const { page } = await signedIn(browser, neap)
  await page.getByRole('link', { name: 'API keys' }).click()
  await page.getByRole('button', { name: 'New API key' }).click()
  await page.getByLabel('Name').fill('audited')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('only its hash is kept').waitFor()
  const { audit } = await neap.call('GET /audit', { query: { limit: 2 } })
  const [me] = audit
  assert.equal(me?.action, 'POST /api_keys')
  assert.ok(me?.person_id)
  assert.equal(me.api_key_id, undefined)
  assert.deepEqual([audit[1]?.action, audit[1]?.person_id], ['POST /session', me.person_id])
})
