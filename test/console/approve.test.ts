import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { catalogQuery } from '../admin.ts'
import { without } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, type Place } from '../project.ts'
import { makeWaitingLogin } from '../waiting_login.ts'
import { startPsql, type WaitingPsql, withoutPassword } from '../waiting_psql.ts'
import { copied, expectAccessible, signedIn, startBrowser, type Visitor, visitor, withoutBrowser } from './browser.ts'

/* The page on which a person lets a client in that gave no password. */

const skip = withoutBrowser || without('psql')
let neap: Neap
let place: Place
let browser: Browser
let visit: Visitor
const running: WaitingPsql[] = []

before(async () => {
  if (skip) return
  neap = await startNeap()
  place = await firstPlace(neap)
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
})

after(async () => {
  for (const { process: child } of running) child.kill('SIGKILL')
  await browser?.close()
  await neap?.stop()
})

function ask(connection = withoutPassword(place.uri), env?: NodeJS.ProcessEnv): WaitingPsql {
  const asking = startPsql(connection, 'select current_user', env)
  running.push(asking)
  return asking
}

/** The link in the notice of a client, once it shows one. */
async function linkOf(asking: WaitingPsql): Promise<string> {
  await asking.code()
  return /https?:\S+\/approve\/\S+/.exec(asking.stderr())?.[0] ?? assert.fail(asking.stderr())
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const heading = (page: Page, name: string) => page.getByRole('heading', { name, exact: true })

/** Where NEAP_SCREENSHOTS names a directory, pages are drawn there. */
async function draw(page: Page, name: string): Promise<void> {
  const directory = process.env['NEAP_SCREENSHOTS']
  if (directory) await page.screenshot({ path: `${directory}/${name}.png`, fullPage: true })
}

test('access is turned on at the branch, and its command for psql works as pasted', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/projects/${place.project_id}/branches/${place.branch_id}`)
  const allowed = page.getByRole('switch', { name: /without a password/ })
  assert.equal(await allowed.isChecked(), false)
  await allowed.check()
  await button(page, 'Connect without a password').click()
  const command = page.getByRole('dialog').getByRole('button', { name: 'psql' })
  await command.waitFor()
  await expectAccessible(page)
  await draw(page, 'connect')
  const [, pasted = ''] = /^psql '(.+)'$/.exec(await copied(page, 'Copy the command for psql')) ?? []
  await button(page, 'Done').click()
  const asking = ask(pasted)
  await page.goto(await linkOf(asking))
  await heading(page, 'Let this client in?').waitFor()
  for (const fact of ['127.0.0.1', 'also that of this browser', 'psql', place.endpoint_id, await asking.code()])
    await page.getByText(fact).first().waitFor()
  await expectAccessible(page)
  await draw(page, 'pending')
  await button(page, 'Approve').click()
  await heading(page, 'Let in').waitFor()
  assert.equal(await asking.ended, 0)
  assert.equal(asking.stdout(), new URL(place.uri).username)
  await expectAccessible(page)
  await draw(page, 'approved')
})

test('a code that is typed by hand is refused, and its client is told so', { skip }, async () => {
  const { page, origin } = visit
  const asking = ask()
  await page.goto(`${origin}/approve`)
  await expectAccessible(page)
  await draw(page, 'enter')
  await page.getByLabel('Code').fill((await asking.code()).toLowerCase())
  await button(page, 'Show the login').click()
  await button(page, 'Refuse').click()
  await heading(page, 'Refused').waitFor()
  assert.equal(await asking.ended, 2)
  assert.match(asking.stderr(), /The login was refused/)
  await page.goto(`${origin}/approve/0000-0000`)
  await heading(page, 'There is no such login').waitFor()
  await expectAccessible(page)
  await draw(page, 'unknown')
})

test('names that a client chooses are text, and a client that leaves is noticed', { skip }, async () => {
  const { page } = visit
  const hostile = '<img src=x onerror=document.title=1>'
  const asking = ask(withoutPassword(place.uri, `${hostile}role`), { PGAPPNAME: hostile })
  await page.goto(await linkOf(asking))
  await page.getByText(hostile).first().waitFor()
  assert.equal(await page.locator('img[src="x"]').count(), 0)
  await draw(page, 'hostile')
  await button(page, 'Approve').click()
  await page.getByRole('alert').getByText('role not found').waitFor()
  asking.process.kill()
  await heading(page, 'The client has gone').waitFor()
  assert.equal(await button(page, 'Approve').count(), 0)
})

test('a client at another address is warned of, on a phone too', { skip }, async () => {
  const { context } = visit
  const page = await context.newPage()
  await page.setViewportSize({ width: 360, height: 740 })
  await page.emulateMedia({ colorScheme: 'dark' })
  const { code } = await makeWaitingLogin(neap, place.endpoint_id, 'neondb_owner')
  await page.goto(`${visit.origin}/approve/${code}`)
  await page.getByRole('note').getByText('at another address than this browser: 192.0.2.7').waitFor()
  await expectAccessible(page)
  const widest = await page.evaluate(() => document.documentElement.scrollWidth)
  assert.ok(widest <= 360, `the page is ${widest} px wide`)
  await draw(page, 'phone')
  await page.close()
})

test('who is not signed in sees nothing of a login, and a viewer cannot answer it', { skip }, async () => {
  const { code } = await makeWaitingLogin(neap, place.endpoint_id, 'neondb_owner')
  const stranger = await visitor(browser, neap)
  await stranger.page.goto(`${stranger.origin}/approve/${code}`)
  await heading(stranger.page, 'Sign in to Neap').waitFor()
  assert.ok(!(await stranger.page.content()).includes('neondb_owner'))
  for (const verb of ['approve', 'refuse']) {
    const url = `${neap.ready.api_url}/passwordless_logins/${code}/${verb}`
    assert.equal((await fetch(url, { method: 'POST', headers: { 'neap-organization': '' } })).status, 401)
  }
  await stranger.context.close()
  const { page } = visit
  await catalogQuery(neap, `update membership set role = 'viewer'`)
  await page.goto(`${visit.origin}/approve/${code}`)
  await button(page, 'Approve').click()
  await page.getByRole('alert').getByText('You are a viewer of this organization').waitFor()
  await draw(page, 'viewer')
  await catalogQuery(neap, `update membership set role = 'admin'`)
  await button(page, 'Approve').click()
  await heading(page, 'Let in').waitFor()
})

test('no page of these had an error', { skip }, () => assert.deepEqual(visit.problems(), []))
