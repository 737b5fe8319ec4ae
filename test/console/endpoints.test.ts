import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Locator } from 'playwright-core'
import { connect } from '../clients.ts'
import { until } from '../processes.ts'
import { expectAccessible, signedIn, withoutBrowser } from './browser.ts'
import { openedConsole } from './opened.ts'

/* The page of a branch's compute: its state and size, why it has them, and what can be done about it. */

const skip = withoutBrowser
const at = openedConsole()

async function openCompute(): Promise<Locator> {
  const { page, origin } = at.visit
  await page.goto(`${origin}/projects/${at.place.project_id}/branches/${at.place.branch_id}`)
  const compute = page.getByRole('region', { name: 'Compute' })
  await compute.waitFor()
  return compute
}

/** Opens a form of the compute, fills it, and sends it. */
async function change(compute: Locator, opener: string, verb: string, fill?: (dialog: Locator) => Promise<unknown>) {
  await compute.getByRole('button', { name: opener, exact: true }).click()
  const dialog = at.visit.page.getByRole('dialog')
  await fill?.(dialog)
  await dialog.getByRole('button', { name: verb, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** The reason that a disabled button names. */
async function reasonOf(compute: Locator, name: string): Promise<string> {
  const button = compute.getByRole('button', { name, exact: true })
  assert.ok(await button.isDisabled(), `${name} is not disabled`)
  const id = await button.getAttribute('aria-describedby')
  const text = await at.visit.page.locator(`[id="${id}"]`).textContent()
  assert.equal(await button.getAttribute('title'), text)
  return text ?? ''
}

test('a compute is suspended, started and restarted; what cannot be done says why', { skip }, async () => {
  const compute = await openCompute()
  const state = (word: string) => compute.getByRole('status').getByText(word, { exact: true }).waitFor()
  await state('Active')
  assert.equal(await reasonOf(compute, 'Start'), 'It runs already.')
  await compute.getByRole('button', { name: 'Suspend', exact: true }).click()
  await state('Idle')
  await compute.getByText('It went to sleep').waitFor()
  assert.equal(await reasonOf(compute, 'Suspend'), 'It does not run.')
  assert.equal(await reasonOf(compute, 'Restart'), 'It does not run: start it.')
  await compute.getByRole('button', { name: 'Start', exact: true }).click()
  await state('Active')
  const answered = at.visit.page.waitForResponse('**/restart')
  await compute.getByRole('button', { name: 'Restart', exact: true }).click()
  const { operations } = (await (await answered).json()) as { operations: { id: string; project_id: string }[] }
  assert.equal(operations.length, 2)
  await at.neap.ended(operations)
  await state('Active')
})

test('a branch whose masking failed is closed, and says why', { skip }, async () => {
  const { neap, place, visit } = at
  const rule = { database_name: 'neondb', schema_name: 'public', table_name: 'nobody', column_name: 'id' }
  const { branch } = await neap.call('POST /projects/:project_id/branch_anonymized', {
    params: { project_id: place.project_id },
    body: {
      branch_create: { branch: { name: 'closed' }, endpoints: [{ type: 'read_write' }] },
      masking_rules: [{ ...rule, masking_value: '1' }],
      start_anonymization: true,
    },
  })
  const params = { project_id: place.project_id, branch_id: branch.id }
  await until('the masking has failed', async () => {
    const { state } = await neap.call('GET /projects/:project_id/branches/:branch_id/anonymized_status', { params })
    return state === 'error'
  })
  await visit.page.goto(`${visit.origin}/projects/${place.project_id}/branches/${branch.id}`)
  const compute = visit.page.getByRole('region', { name: 'Compute' })
  await compute.getByText('It is closed until the data of its branch are masked').waitFor()
  assert.equal(await compute.getByText('The next connection').count(), 0)
  await visit.page.getByRole('region', { name: 'Branch' }).getByText('there is no table "public"."nobody"').waitFor()
  await expectAccessible(visit.page)
  await compute.getByRole('button', { name: 'Start', exact: true }).click()
  await compute.getByRole('alert').getByText('there is no table "public"."nobody"').waitFor()
})

const readEndpoint = () =>
  at.neap.call('GET /projects/:project_id/endpoints/:endpoint_id', {
    params: { project_id: at.place.project_id, endpoint_id: at.place.endpoint_id },
  })

test('the size, the timeout and whether it is enabled are changed', { skip }, async () => {
  const compute = await openCompute()
  await compute.getByText('Its size is fixed: 0.25 CU are 0.25 CPUs and 1 GiB of memory.').waitFor()
  await change(compute, 'Resize', 'Resize', (dialog) => dialog.getByLabel('Size').selectOption('0.5'))
  await compute.getByText('Its size is fixed: 0.5 CU').waitFor()
  await change(compute, 'Suspend timeout', 'Change', (dialog) => dialog.getByLabel('Unused for').selectOption('-1'))
  await compute.getByText('never goes to sleep').waitFor()
  await change(compute, 'Disable', 'Disable')
  await compute.getByText('Stopped', { exact: true }).waitFor()
  assert.equal(await reasonOf(compute, 'Start'), 'It is stopped: enable it first.')
  await change(compute, 'Enable', 'Enable')
  await compute.getByText('Idle', { exact: true }).waitFor()
  const { endpoint } = await readEndpoint()
  assert.deepEqual(
    [endpoint.autoscaling_limit_max_cu, endpoint.suspend_timeout_seconds, endpoint.disabled],
    [0.5, -1, false],
  )
})

test('a form shows its request as commands', { skip }, async () => {
  const compute = await openCompute()
  await compute.getByRole('button', { name: 'Resize', exact: true }).click()
  const dialog = at.visit.page.getByRole('dialog')
  await dialog.getByLabel('Size').selectOption('2')
  await dialog.getByText('As a command').click()
  await dialog
    .getByText(`npx neap endpoints update ${at.place.endpoint_id} --project ${at.place.project_id} --cu 2`)
    .waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await dialog.waitFor({ state: 'detached' })
})

test('who keeps a compute awake is listed, with hostile names as text', { skip }, async () => {
  const hostile = '<img src=x onerror=alert(1)>'
  const client = await connect(at.neap, at.place.uri)
  await client.query(`set application_name = '${hostile}'`)
  await client.query('begin')
  const compute = await openCompute()
  const session = compute.getByRole('row').filter({ hasText: hostile })
  await session.getByText('keeps it awake').waitFor()
  await compute.getByText('It stays awake as long as this session works.').waitFor()
  await expectAccessible(at.visit.page)
  await client.end()
})

test('a compute moves to a branch without one, and its old branch can have another', { skip }, async () => {
  const params = { project_id: at.place.project_id }
  const { branch, operations } = await at.neap.call('POST /projects/:project_id/branches', {
    params,
    body: { branch: { name: 'without compute' } },
  })
  await at.neap.ended(operations)
  const compute = await openCompute()
  await change(compute, 'Move', 'Move', async (dialog) => {
    await dialog.getByText('As a command').click()
    await dialog.getByLabel('Branch').fill('without compute')
    await dialog.getByText(`--move-to ${branch.id}`).waitFor()
  })
  const { page } = at.visit
  await page.getByText('No client can connect to this branch until it has a compute.').waitFor()
  assert.equal((await readEndpoint()).endpoint.branch_id, branch.id)
  await page.getByRole('button', { name: 'Add a compute' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('region', { name: 'Compute' }).getByText('Active', { exact: true }).waitFor()
})

test('a refusal is shown where it was asked for', { skip }, async () => {
  const { page, origin } = at.visit
  await page.route('**/suspend', (route) =>
    route.fulfill({ status: 403, json: { code: 'FORBIDDEN', message: 'You may only read here.', request_id: 'x' } }),
  )
  await page.goto(`${origin}/projects/${at.place.project_id}/branches/${at.place.branch_id}`)
  const compute = page.getByRole('region', { name: 'Compute' })
  await compute.getByRole('button', { name: 'Suspend', exact: true }).click()
  await compute.getByRole('alert').getByText('You may only read here.').waitFor()
  await page.unroute('**/suspend')
})

test('the projects are listed with their branches, computes and sizes', { skip }, async () => {
  const { page, origin } = at.visit
  await page.goto(`${origin}/`)
  const row = page.getByRole('row', { name: 'first' })
  await row.getByText('1 active').waitFor()
  await row.getByText('MiB').waitFor()
})

test('the page of a compute fits a narrow window, in light and dark', { skip }, async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const narrow = await signedIn(at.browser, at.neap, { colorScheme, viewport: { width: 360, height: 740 } })
    await narrow.page.goto(`${narrow.origin}/projects/${at.place.project_id}/branches/${at.place.branch_id}`)
    await narrow.page.getByRole('region', { name: 'Compute' }).waitFor()
    await expectAccessible(narrow.page)
    assert.ok((await narrow.page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
    await narrow.context.close()
  }
})

test('no page has written an error', { skip }, () => {
  assert.deepEqual(at.visit.problems(), [])
})
