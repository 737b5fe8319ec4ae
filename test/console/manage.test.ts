import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { query } from '../clients.ts'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, type Place } from '../project.ts'
import { copied, expectAccessible, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* Roles and databases, keys, settings, usage, webhooks, the audit list and the palette. */

const skip = withoutBrowser
const HOSTILE = `<b>"x'`
let neap: Neap
let browser: Browser
let visit: Visitor
let place: Place
let receiver: Server
let answer = 500
const ofProject = (path = '') => `${visit.origin}/projects/${place.project_id}${path}`
const ofBranch = (path = '') => ofProject(`/branches/${place.branch_id}${path}`)
const dialog = () => visit.page.getByRole('dialog')
const setting = (name: string) => visit.page.getByRole('region', { name, exact: true })

before(async () => {
  if (skip) return
  neap = await startNeap({ env: { NEAP_WEBHOOK_ALLOW: '127.0.0.0/8', NEAP_RECOVER_HOURS: '1' } })
  place = await firstPlace(neap)
  receiver = createServer((_request, response) => void response.writeHead(answer).end(HOSTILE)).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
})

after(async () => {
  receiver?.closeAllConnections()
  receiver?.close()
  await browser?.close()
  await neap?.stop()
})

test('a role is made with a password that logs in, is given another, and is deleted', { skip }, async () => {
  const { page } = visit
  await page.goto(ofBranch('/roles'))
  await page.getByRole('button', { name: 'New role' }).click()
  await dialog().getByLabel('Name').fill(HOSTILE)
  await page.getByRole('button', { name: 'Create role' }).click()
  const first = await copied(page, 'Copy the password')
  await page.getByRole('button', { name: 'Done' }).click()
  const row = page.getByRole('row', { name: HOSTILE })
  const logsIn = async (password: string) => {
    const uri = new URL(place.uri)
    uri.username = encodeURIComponent(HOSTILE)
    uri.password = password
    return query(neap, uri.href, 'select 1 as one')
  }
  assert.deepEqual(await logsIn(first), [{ one: 1 }])
  await row.getByRole('button', { name: 'Reset password' }).click()
  await dialog().getByRole('button', { name: 'Reset password' }).click()
  const second = await copied(page, 'Copy the password')
  await page.getByRole('button', { name: 'Done' }).click()
  assert.notEqual(second, first)
  assert.deepEqual(await logsIn(second), [{ one: 1 }])
  await row.getByRole('button', { name: 'Show password' }).click()
  await page.getByRole('button', { name: 'Show it' }).click()
  assert.equal(await copied(page, 'Copy the password'), second)
  await page.getByRole('button', { name: 'Done' }).click()
  await dialog().waitFor({ state: 'detached' })
  assert.ok(!(await page.content()).includes(second))
})

test('a database is made, renamed, given another owner and deleted, as its role is', { skip }, async () => {
  const { page } = visit
  await page.getByRole('button', { name: 'New database' }).click()
  await dialog().getByLabel('Name').fill('fresh')
  await dialog().getByLabel('Owner').selectOption(HOSTILE)
  await page.getByRole('button', { name: 'Create database' }).click()
  await page.getByRole('row', { name: 'fresh' }).getByRole('button', { name: 'Change' }).click()
  await dialog().getByLabel('Name').fill('renamed')
  await page.getByRole('button', { name: 'Save' }).click()
  const row = page.getByRole('table', { name: 'Databases' }).getByRole('row', { name: 'renamed' })
  await row.waitFor()
  const role = page.getByRole('table', { name: 'Roles' }).getByRole('row', { name: HOSTILE })
  await role.getByRole('button', { name: 'Delete' }).click()
  await dialog().getByLabel(`Type ${HOSTILE}`).fill(HOSTILE)
  await page.getByRole('button', { name: 'Delete role' }).click()
  await page.getByRole('alert').getByText(/owner/).waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await row.getByRole('button', { name: 'Delete' }).click()
  await dialog().getByLabel('Type renamed').fill('renamed')
  await page.getByRole('button', { name: 'Delete database' }).click()
  await dialog().waitFor({ state: 'detached' })
  await row.waitFor({ state: 'detached' })
  await role.getByRole('button', { name: 'Delete' }).click()
  await dialog().getByLabel(`Type ${HOSTILE}`).fill(HOSTILE)
  await page.getByRole('button', { name: 'Delete role' }).click()
  await dialog().waitFor({ state: 'detached' })
  await role.waitFor({ state: 'detached' })
})

test('a key of one project is refused elsewhere', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/keys?do=new-key`)
  await dialog().getByLabel('Name').fill('of one project')
  await dialog().getByLabel('Project').selectOption('first')
  await dialog().getByLabel('Days until it expires').fill('3')
  await page.getByRole('button', { name: 'Create key' }).click()
  const key = await copied(page, 'Copy the key')
  await page.getByRole('button', { name: 'Done' }).click()
  assert.doesNotMatch(page.url(), /do=/)
  assert.equal((await send(neap, 'GET', `/projects/${place.project_id}`, { key })).status, 200)
  assert.equal((await send(neap, 'POST', '/projects', { key, body: { project: {} } })).status, 403)
  await page.reload()
  await page.getByRole('row', { name: 'of one project' }).getByText('from 127.0.0.1').waitFor()
})

test('the settings of a project are changed, and what is refused says why', { skip }, async () => {
  const { page } = visit
  await page.goto(ofProject('/settings'))
  await setting('Allowed addresses').getByRole('button').click()
  await dialog().getByLabel('Addresses').fill('not an address')
  await page.getByRole('button', { name: 'Save' }).click()
  await dialog().getByRole('alert').waitFor()
  await dialog().getByLabel('Addresses').fill('127.0.0.1\n192.0.2.0/24')
  await dialog().getByLabel('For protected branches only').check()
  await page.getByRole('button', { name: 'Save' }).click()
  await setting('Allowed addresses').getByText('127.0.0.1, 192.0.2.0/24, to protected branches').waitFor()

  await setting('Quotas of a month').getByRole('button').click()
  await dialog().getByLabel('Compute time').fill('100')
  await dialog().getByLabel('Size of each branch').fill('2')
  await page.getByRole('button', { name: 'Save' }).click()
  await setting('Quotas of a month').getByText('of 100.0 h').waitFor()
  await setting('New computes').getByRole('button').click()
  await dialog().getByLabel('Largest size').selectOption('0.5')
  await dialog().getByLabel('Smallest size').selectOption('0.5')
  await dialog().getByLabel('Idle seconds').fill('600')
  await page.getByRole('button', { name: 'Save' }).click()
  await setting('New computes').getByText('0.5 CU; they sleep after 600 idle seconds.').waitFor()
  await setting('Logical replication').getByRole('button').click()
  await dialog().getByRole('button', { name: 'Turn on' }).click()
  await setting('Logical replication').getByText('Roles may read changes').waitFor()

  const { project } = await neap.call('GET /projects/:project_id', { params: place })
  assert.deepEqual(project.settings.allowed_ips, {
    ips: ['127.0.0.1', '192.0.2.0/24'],
    protected_branches_only: true,
  })
  assert.equal(project.settings.quota?.compute_time_seconds, 360_000)
  assert.equal(project.settings.quota?.logical_size_bytes, 2 * 1024 ** 3)
  assert.equal(project.default_endpoint_settings.suspend_timeout_seconds, 600)
  assert.equal(project.settings.enable_logical_replication, true)
})

test('a deleted project is recovered from the list', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/?do=new-project`)
  await dialog().getByLabel('Name').fill('soon gone')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.getByRole('heading', { name: 'soon gone' }).waitFor()
  await page.getByRole('link', { name: 'Settings' }).click()
  await page.getByRole('button', { name: 'Delete project' }).click()
  await dialog().getByLabel('Type soon gone').fill('soon gone')
  await dialog().getByRole('button', { name: 'Delete project' }).click()
  const deleted = page.getByRole('table', { name: 'Deleted projects' }).getByRole('row', { name: 'soon gone' })
  await deleted.getByRole('button', { name: 'Recover' }).click()
  await deleted.waitFor({ state: 'detached' })
  await page.getByRole('table', { name: 'Projects', exact: true }).getByRole('link', { name: 'soon gone' }).waitFor()
})

test(
  'a webhook is made with a secret that is shown once; its deliveries are followed and tried again',
  { skip },
  async () => {
    const { page, origin } = visit
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
    await page.goto(`${origin}/account/webhooks`)
    await page.getByText('No webhooks').waitFor()
    await page.getByRole('button', { name: 'New webhook' }).click()
    await dialog().getByLabel('Address').fill(url)
    await page.getByRole('button', { name: 'Create webhook' }).click()
    await page.getByText('Choose one event at least.').waitFor()
    await dialog().getByLabel('branch.created').check()
    await page.getByRole('button', { name: 'Create webhook' }).click()
    assert.match(await copied(page, 'Copy the secret'), /^whsec_/)
    await page.getByRole('button', { name: 'Done' }).click()

    await page.getByRole('button', { name: 'Deliveries' }).click()
    await page.getByText('No deliveries yet').waitFor()
    await page.getByRole('button', { name: 'Send a test' }).click()
    const delivery = page.getByRole('table', { name: 'Deliveries' }).getByRole('row', { name: 'webhook.test' })
    await delivery.getByText('status 500').waitFor()
    await delivery.getByText(HOSTILE).waitFor()
    answer = 200
    const again = delivery.getByRole('button', { name: 'Try again' })
    if (await again.isEnabled()) await again.click()
    else
      await neap.call('POST /webhooks/:webhook_id/deliveries/:delivery_id/redeliver', { params: await firstDelivery() })
    await delivery.getByText('delivered').waitFor()

    await page.getByRole('button', { name: 'Disable' }).click()
    await page.getByRole('button', { name: 'Disable webhook' }).click()
    await page.getByText('Disabled', { exact: true }).waitFor()
    assert.ok(await page.getByRole('button', { name: 'Send a test' }).isDisabled())
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete webhook' }).click()
    await page.getByText('No webhooks').waitFor()
  },
)

async function firstDelivery() {
  const [webhook] = (await neap.call('GET /webhooks', {})).webhooks
  const params = { webhook_id: webhook?.id ?? '' }
  const { deliveries } = await neap.call('GET /webhooks/:webhook_id/deliveries', { params, query: { limit: 1 } })
  return { ...params, delivery_id: deliveries[0]?.id ?? '' }
}

test('the audit list is filtered by who did what, in the address', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/account/audit`)
  const rows = page.getByRole('table', { name: 'Audit' }).getByRole('row')
  await page.getByRole('button', { name: 'POST /webhooks', exact: true }).click()
  await page.getByRole('button', { name: 'POST /session' }).first().waitFor({ state: 'detached' })
  await rows.nth(1).waitFor()
  assert.equal(await rows.count(), 2)
  await page.reload()
  await page.getByRole('button', { name: 'POST /webhooks', exact: true }).waitFor()
  assert.equal(await rows.count(), 2)
  await page.getByLabel('Action').selectOption('all')
  await page.getByRole('button', { name: 'of one project' }).first().click()
  await page.getByText('403').waitFor()
  assert.match(page.url(), /api_key_id=\d+/)
  await page.getByRole('button', { name: /^API key \d+/ }).click()
  await page.getByLabel('Before').fill('2020-01-01T00:00')
  await page.getByText('No entries').waitFor()
})

test('usage is shown by hour, day and month, and the limits of the account are changed', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(ofProject('/usage'))
  await page.getByLabel('Show').selectOption('by hour, the last two days')
  await page.getByRole('table', { name: 'Usage by branch' }).getByRole('link', { name: place.branch_id }).waitFor()
  assert.match(page.url(), /by=hourly/)
  await page.goto(`${origin}/account/usage`)
  await page.getByRole('link', { name: 'first' }).waitFor()
  await page.goto(`${origin}/account`)
  await setting('Plan and limits').getByRole('button').click()
  await dialog().getByLabel('Projects at most').fill('77')
  await page.getByRole('button', { name: 'Save' }).click()
  await setting('Plan and limits').getByText('of 77').waitFor()
})

test('the palette reaches pages, projects, branches and actions by keys alone', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(origin)
  await page.getByRole('heading', { name: 'Projects' }).waitFor()
  const go = async (text: string) => {
    await page.keyboard.press('Control+k')
    await page.locator('input[role=combobox]:focus').waitFor()
    await page.keyboard.type(text)
    await page.getByRole('option', { name: text }).first().waitFor()
    await page.keyboard.press('Enter')
  }
  await go('Audit')
  await page.waitForURL(/\/account\/audit$/)
  await go('main')
  await page.waitForURL(/\/branches\/[\w-]+$/)
  await go('Change expiry')
  await page.waitForURL(/\/settings\?do=expiry$/)
  await page.getByRole('heading', { name: 'main' }).waitFor()
  for (const [text, url] of [
    ['SQL editor', /\/sql$/],
    ['Tables', /\/tables$/],
    ['Query insights', /\/insights$/],
    ['Monitoring', /\/monitoring$/],
  ] as const) {
    await go(text)
    await page.waitForURL(url)
  }
  await go('Resize compute')
  await page.getByRole('dialog', { name: 'Resize the compute' }).waitFor()
  await page.keyboard.press('Escape')
  await dialog().waitFor({ state: 'detached' })
  await go('New branch')
  await page.getByRole('dialog', { name: 'New branch' }).waitFor()
  await page.keyboard.press('Escape')
  await dialog().waitFor({ state: 'detached' })
  assert.doesNotMatch(page.url(), /do=/)
  await page.keyboard.press('Control+k')
  await page.getByRole('option').first().waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowUp')
  await page.keyboard.press('ArrowUp')
  await page.keyboard.type('nothing has this')
  await page.getByText('Nothing has this in its name.').waitFor()
  await expectAccessible(page)
  await page.keyboard.press('Escape')
  await page.getByRole('combobox', { name: 'Page, project' }).waitFor({ state: 'detached' })
})

test('every page is accessible, in light and dark, and fits a narrow window', { skip }, async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const viewport = { width: 360, height: 740 }
    const { page, context, problems } = await signedIn(browser, neap, { colorScheme, viewport })
    for (const url of [
      ...['/usage', '/settings', '/settings?do=quotas'].map(ofProject),
      ...['/roles', '/roles?do=new-role', '/schema', '/restore', '/settings'].map(ofBranch),
      ...['', '/usage', '/webhooks', '/webhooks?do=new-webhook', '/audit'].map(
        (path) => `${visit.origin}/account${path}`,
      ),
    ]) {
      await page.goto(url)
      // An open dialog hides the rest of the page.
      const isOpen = url.includes('do=')
      await (
        isOpen ? page.getByRole('dialog') : page.getByRole('navigation', { name: /Project|Branch|Account/ })
      ).waitFor()
      await page.getByRole('status').filter({ hasText: '…' }).first().waitFor({ state: 'detached' })
      await expectAccessible(page)
      const width = await page.evaluate(() => document.documentElement.scrollWidth)
      assert.ok(width <= 360, `${url} is ${width} pixels wide`)
    }
    assert.deepEqual(problems(), [])
    await context.close()
  }
  assert.deepEqual(visit.problems(), [])
})
