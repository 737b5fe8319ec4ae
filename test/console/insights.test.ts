import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, type Place, suspend } from '../project.ts'
import { expectAccessible, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* The cost of the statements of a branch. */

const skip = withoutBrowser
const HOSTILE = `<img src=x onerror="document.title='owned'">`
let neap: Neap
let place: Place
let browser: Browser
let visit: Visitor
let page: Page
let address: string

before(async () => {
  if (skip) return
  neap = await startNeap()
  place = await firstPlace(neap)
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
  page = visit.page
  address = `${visit.origin}/projects/${place.project_id}/branches/${place.branch_id}/insights`
  await query(neap, place.uri, `create table "${HOSTILE.replaceAll('"', '""')}" (id int primary key)`)
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

const table = () => page.getByRole('table', { name: 'Statements' })

test('where the extension is missing the page offers to create it', { skip }, async () => {
  await page.goto(address)
  const create = page.getByRole('button', { name: 'Create the extension' })
  const wake = page.getByRole('button', { name: 'Wake it and read the statistics' })
  await create.or(wake).waitFor()
  if (await wake.isVisible()) await wake.click()
  await create.waitFor()
  await expectAccessible(page)
  await create.click()
  await table().waitFor()
})

test('statements are listed with what they took, also after a suspend, and planned on demand', { skip }, async () => {
  const hostile = `"${HOSTILE.replaceAll('"', '""')}"`
  for (let turn = 0; turn < 5; turn++) await query(neap, place.uri, `select id from ${hostile} where id = ${turn}`)
  await suspend(neap, place)
  // What was read stays; reading more wakes the compute.
  await page.getByLabel('Sorted by').selectOption('Calls')
  await page.waitForURL('**/insights?by=calls')
  await page.reload()
  const wake = page.getByRole('button', { name: 'Wake it and read the statistics' })
  await wake.or(table()).waitFor()
  if (await wake.isVisible()) await wake.click()
  const row = table().getByRole('row', { name: `select id from ${hostile} where id = $1` })
  await row.getByRole('cell', { name: '5', exact: true }).first().waitFor()
  await row.getByRole('button', { name: 'Plan' }).click()
  await row.getByRole('list', { name: 'Plan' }).getByText('Index Only Scan').waitFor()
  await expectAccessible(page)
})

test('texts that may hold a password are not kept, nor what Neap itself runs', { skip }, async () => {
  await query(neap, place.uri, `create role with_password password 'very-secret-1'`)
  const params = { project_id: place.project_id, branch_id: place.branch_id }
  await neap.call('GET /projects/:project_id/branches/:branch_id/roles', { params })
  const kept = await query(
    neap,
    place.uri,
    `select query from pg_stat_statements
      where query ilike '%very-secret%' and query not ilike '%pg_stat_statements%'
         or userid in (select oid from pg_roles where rolname = 'neap_admin')`,
  )
  assert.deepEqual(kept, [])
})

test('the page is usable at 360 pixels, and wrote no error', { skip }, async () => {
  await page.setViewportSize({ width: 360, height: 740 })
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
  await expectAccessible(page)
  assert.equal(await page.title(), 'Neap')
  assert.equal(await page.locator('img[src=x]').count(), 0)
  assert.deepEqual(visit.problems(), [])
})
