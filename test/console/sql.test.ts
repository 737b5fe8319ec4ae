import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place, suspend } from '../project.ts'
import { expectAccessible, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* The SQL page of a branch. */

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
  await query(
    neap,
    place.uri,
    `create table orders (id int primary key, customer text, "${HOSTILE.replaceAll('"', '""')}" text);
     insert into orders select i, 'customer ' || i, $$${HOSTILE}$$ from generate_series(1, 50) i`,
  )
  await suspend(neap, place)
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
  page = visit.page
  address = `${visit.origin}/projects/${place.project_id}/branches/${place.branch_id}/sql`
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

const editor = () => page.getByRole('textbox', { name: 'SQL' })
const rows = () => page.getByRole('table', { name: 'Rows' })

async function write(sql: string): Promise<void> {
  await editor().click()
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.insertText(sql)
}

async function run(sql: string): Promise<void> {
  await write(sql)
  await page.keyboard.press('ControlOrMeta+Enter')
}

test('opening the page wakes no compute; running does', { skip }, async () => {
  await page.goto(address)
  await editor().waitFor()
  await expectAccessible(page)
  const { endpoint } = await neap.call('GET /projects/:project_id/endpoints/:endpoint_id', { params: place })
  assert.equal(endpoint.current_state, 'idle')
  await run('select id, customer from orders order by id; select 7 as seven')
  await page.getByText('2 statements in').waitFor()
  await rows().getByRole('cell', { name: 'customer 2', exact: true }).waitFor()
  await page.getByRole('button', { name: '2: SELECT 1' }).click()
  await rows().getByRole('columnheader', { name: 'seven' }).waitFor()
  await expectAccessible(page)
})

test('the text outlives a reload, and what was run is in the history', { skip }, async () => {
  await page.reload()
  await editor().getByText('select 7 as seven').waitFor()
  await page.getByText('History', { exact: true }).click()
  await page.getByRole('button', { name: 'select id, customer from orders' }).waitFor()
  await page.getByText('History', { exact: true }).click()
})

test('tables, columns and functions of the database are completed', { skip }, async () => {
  await write('select * from ord')
  await page.keyboard.press('Control+Space')
  await page.getByRole('option', { name: 'orders' }).click()
  await editor().getByText('select * from orders').waitFor()
})

test('an error is shown at its place, beyond characters of two units too', { skip }, async () => {
  await run(`select '😀',\n nowhere from orders`)
  await page.getByRole('alert').getByText('column "nowhere" does not exist').waitFor()
  assert.equal(await page.locator('.cm-wrong').textContent(), 'nowhere')
})

test('only the selection is run', { skip }, async () => {
  await write('select 1 as one; select 2 as two')
  await page.keyboard.press('Shift+Control+ArrowLeft')
  await page.keyboard.press('Shift+Control+ArrowLeft')
  await page.keyboard.press('Shift+Control+ArrowLeft')
  await page.keyboard.press('Shift+Control+ArrowLeft')
  await page.keyboard.press('ControlOrMeta+Enter')
  await rows().getByRole('columnheader', { name: 'two' }).waitFor()
  await page.getByText('1 statement in').waitFor()
})

test('a read-only run refuses writes', { skip }, async () => {
  await page.getByLabel('Read-only').check()
  await run('delete from orders')
  await page.getByRole('alert').getByText('cannot execute DELETE in a read-only transaction').waitFor()
  await page.getByLabel('Read-only').uncheck()
})

test('a running text is cancelled', { skip }, async () => {
  await run('select pg_sleep(600)')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('alert').getByText('Cancelled').waitFor()
  await until('the end of the query', async () => {
    const sessions = `select from pg_stat_activity where application_name = 'Neap SQL' and state = 'active'`
    return (await query(neap, place.uri, sessions)).length === 0
  })
})

test('explain shows a tree without running the statement, and runs it by its own button', { skip }, async () => {
  await write(`insert into orders values (1000, 'new', null)`)
  await page.getByRole('button', { name: 'Explain', exact: true }).click()
  await page.getByRole('list', { name: 'Plan' }).getByText('ModifyTable').waitFor()
  await expectAccessible(page)
  assert.deepEqual(await query(neap, place.uri, 'select from orders where id = 1000'), [])
  await page.getByRole('button', { name: 'Run and explain' }).click()
  await page.getByText('Planned in').waitFor()
  assert.equal((await query(neap, place.uri, 'select from orders where id = 1000')).length, 1)
})

test('a million rows scroll to their end, and are exported', { skip }, async () => {
  await run('select i as n, md5(i::text) from generate_series(1, 1000000) i')
  await page.getByText('1,000,000 rows in').waitFor({ timeout: 60_000 })
  await rows().evaluate((scroller) => scroller.scrollTo(0, scroller.scrollHeight))
  await rows().getByRole('rowheader', { name: '1000000', exact: true }).waitFor()
  assert.ok((await page.locator('.line').count()) < 100)
})

test('results are exported as CSV and JSON', { skip }, async () => {
  await run(`select 1 as a, 'x,"y"' as a, null as n, '' as e`)
  await rows().getByRole('cell', { name: 'x,"y"' }).waitFor()
  const save = async (name: string) => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()])
    return readFileSync(await file.path(), 'utf8')
  }
  assert.equal(await save('Export CSV'), 'a,a_2,n,e\r\n1,"x,""y""",,""\r\n')
  assert.deepEqual(JSON.parse(await save('Export JSON')), [{ a: '1', a_2: 'x,"y"', n: null, e: '' }])
})

test('hostile names of columns and values are texts', { skip }, async () => {
  await run('select * from orders limit 3')
  await rows().getByRole('columnheader', { name: HOSTILE }).waitFor()
  await rows().getByRole('cell', { name: HOSTILE }).first().click()
  await page.locator('.value pre').getByText(HOSTILE).waitFor()
  await run(`do $$ begin raise exception '%', $x$${HOSTILE}$x$ using hint = $x$${HOSTILE}$x$; end $$`)
  await page.getByRole('alert').getByText(HOSTILE).first().waitFor()
  await write('explain select 1')
  assert.equal(await page.title(), 'Neap')
  assert.equal(await page.locator('img[src=x]').count(), 0)
})

test('the page is usable at 360 pixels, and wrote no error', { skip }, async () => {
  await page.setViewportSize({ width: 360, height: 740 })
  await run('select * from orders')
  await rows().getByRole('cell', { name: 'customer 2', exact: true }).waitFor()
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
  await expectAccessible(page)
  assert.deepEqual(visit.problems(), [])
})
