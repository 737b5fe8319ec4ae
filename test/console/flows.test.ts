import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { kill } from '../processes.ts'
import { query } from '../clients.ts'
import { copied, expectAccessible, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* What people do in the console, and what they see of others. */

const skip = withoutBrowser
let neap: Neap
let browser: Browser
let visit: Visitor
const project = () => ({ project_id: neap.ready.project_id ?? '' })

before(async () => {
  if (skip) return
  neap = await startNeap()
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

test('a project is made, and its branches and their computes are changed and followed', { skip }, async () => {
  const { page, origin } = visit
  await page.getByRole('button', { name: 'New project' }).click()
  await page.getByLabel('Name').fill('made by hand')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.getByRole('heading', { name: 'made by hand' }).waitFor()
  const main = page.getByRole('row', { name: 'main' })
  await main.getByText('Active', { exact: true }).waitFor()
  await main.getByRole('button', { name: 'Suspend' }).click()
  await main.getByText('Idle', { exact: true }).waitFor()
  await main.getByRole('button', { name: 'Start' }).click()
  await main.getByText('Active', { exact: true }).waitFor()

  await page.getByRole('button', { name: 'New branch' }).click()
  await page.getByLabel('Name').fill('feature')
  await page.getByRole('button', { name: 'Create branch' }).click()
  const feature = page.getByRole('row', { name: 'feature' })
  await feature.getByText('Active', { exact: true }).waitFor()
  await feature.getByText('expires').waitFor()

  await page.getByRole('link', { name: 'Operations' }).click()
  assert.match(page.url(), new RegExp(`^${origin}/projects/[\\w-]+/operations$`))
  await page.getByRole('row', { name: 'create_branch' }).getByText('finished').waitFor()
  await page.goBack()

  await feature.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete branch' }).click()
  await page.getByText('Type feature to go on.').waitFor()
  await page.getByLabel('Type feature').fill('feature')
  await page.getByRole('button', { name: 'Delete branch' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await feature.waitFor({ state: 'detached' })
})

test('what others change is shown without a reload', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/projects/${project().project_id}`)
  await page.getByRole('row', { name: 'main' }).waitFor()
  const { branch } = await neap.call('POST /projects/:project_id/branches', {
    params: project(),
    body: { branch: { name: 'from elsewhere' }, endpoints: [{ type: 'read_write' }] },
  })
  const row = page.getByRole('row', { name: 'from elsewhere' })
  await row.getByText('Active', { exact: true }).waitFor()
  await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { ...project(), branch_id: branch.id },
  })
  await row.waitFor({ state: 'detached' })
})

test('an endpoint is listed as Active, Idle and Stopped', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/projects/${project().project_id}`)
  const main = page.getByRole('row', { name: 'main' })
  const { endpoints } = await neap.call('GET /projects/:project_id/endpoints', { params: project() })
  const [endpoint] = endpoints
  const params = { ...project(), endpoint_id: endpoint?.id ?? '' }
  await main.getByText('Active', { exact: true }).waitFor()
  await neap.call('POST /projects/:project_id/endpoints/:endpoint_id/suspend', { params })
  await main.getByText('Idle', { exact: true }).waitFor()
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
    params,
    body: { endpoint: { disabled: true } },
  })
  await page.reload()
  await main.getByText('Stopped', { exact: true }).waitFor()
  assert.ok(await main.getByRole('button', { name: 'Start' }).isDisabled())
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
    params,
    body: { endpoint: { disabled: false } },
  })
  await neap.call('POST /projects/:project_id/endpoints/:endpoint_id/start', { params })
  await main.getByText('Active', { exact: true }).waitFor()
})

test('the connection string of a sleeping branch connects', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/projects/${project().project_id}`)
  const main = page.getByRole('row', { name: 'main' })
  await main.getByRole('button', { name: 'Suspend' }).click()
  await main.getByText('Idle', { exact: true }).waitFor()
  await main.getByRole('button', { name: 'Connect' }).click()
  const shown = page.getByTitle('Copy the connection string')
  assert.doesNotMatch((await shown.textContent()) ?? '', /npg_/, 'the password is hidden')
  const uri = await copied(page, 'Copy the connection string')
  assert.deepEqual(await query(neap, uri, 'select 1 as one'), [{ one: 1 }])
  await page.getByRole('button', { name: 'Done' }).click()
  await main.getByText('Active', { exact: true }).waitFor()
})

test('a key is made, shown once, works, and is refused once it is revoked', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/keys`)
  await page.getByRole('button', { name: 'New API key' }).click()
  await page.getByLabel('Name').fill('for a test')
  await page.getByLabel('It may').selectOption('read')
  await page.getByRole('button', { name: 'Create key' }).click()
  const key = await copied(page, 'Copy the key')
  await page.getByRole('button', { name: 'Done' }).click()
  assert.equal((await send(neap, 'GET', '/projects', { key })).status, 200)
  assert.equal((await send(neap, 'POST', '/projects', { key, body: { project: {} } })).status, 403)
  assert.ok(!(await page.content()).includes(key), 'the key is shown once')
  const row = page.getByRole('row', { name: 'for a test' })
  await row.getByRole('button', { name: 'Revoke' }).click()
  await page.getByRole('button', { name: 'Revoke key' }).click()
  // A dialog hides the rows behind it from the accessibility tree.
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await row.waitFor({ state: 'detached' })
  assert.equal((await send(neap, 'GET', '/projects', { key })).status, 401)
})

test('the page says that the API is away, and goes on when it is back', { skip }, async () => {
  const { page, origin } = visit
  await page.goto(`${origin}/projects/${project().project_id}`)
  await page.getByRole('row', { name: 'main' }).waitFor()
  neap.process.kill('SIGSTOP')
  try {
    await kill(neap.part('api'))
    await page.getByText('Neap does not answer').waitFor()
  } finally {
    neap.process.kill('SIGCONT')
  }
  await page.getByText('Neap does not answer').waitFor({ state: 'detached' })
  const { operations } = await neap.call('POST /projects/:project_id/branches', {
    params: project(),
    body: { branch: { name: 'after the outage' } },
  })
  await page.getByRole('row', { name: 'after the outage' }).waitFor()
  await neap.ended(operations)
})

test('every page is accessible, in light and dark, and fits a narrow window', { skip }, async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page, origin, context } = await signedIn(browser, neap, {
      colorScheme,
      viewport: { width: 360, height: 740 },
    })
    const { project_id } = project()
    for (const [path, heading] of [
      ['/', 'Projects'],
      [`/projects/${project_id}`, 'first'],
      [`/projects/${project_id}/operations`, 'first'],
      ['/keys', 'API keys'],
      ['/sessions', 'Sessions'],
      ['/projects/none', 'There is no such project'],
    ] as const) {
      await page.goto(origin + path)
      await page.getByRole('heading', { name: heading, exact: true }).waitFor()
      await page.getByRole('status').filter({ hasText: '…' }).waitFor({ state: 'detached' })
      await expectAccessible(page)
      const width = await page.evaluate(() => document.documentElement.scrollWidth)
      assert.ok(width <= 360, `${path} is ${width} pixels wide`)
    }
    await context.close()
  }
})

test('no page has written an error', { skip }, () => {
  assert.deepEqual(visit.problems(), [])
})
