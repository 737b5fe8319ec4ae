import assert from 'node:assert/strict'
import { test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { suspend } from '../project.ts'
import { expectAccessible, signedIn, withoutBrowser } from './browser.ts'
import { insertWakes } from './figures.ts'
import { openedConsole } from './opened.ts'

/* The operations of a project as they happen. */

const skip = withoutBrowser
const at = openedConsole()

const address = (search = '') => `${at.visit.origin}/projects/${at.place.project_id}/operations${search}`
const rows = (name: string | RegExp) => at.visit.page.getByRole('row', { name })

test('an operation appears when it happens, with its steps and their durations', { skip }, async () => {
  const { page } = at.visit
  await page.goto(address())
  await rows('create_timeline').waitFor()
  await suspend(at.neap, at.place)
  const row = rows('suspend_compute').first()
  await row.getByText('finished').waitFor()
  await row.getByText('asked for by a request').waitFor()
  await row.getByRole('button', { name: 'Suspend a compute' }).click()
  const steps = row.getByRole('list', { name: 'Steps' }).getByRole('listitem')
  await steps.first().waitFor()
  for (const step of await steps.all()) assert.match((await step.textContent()) ?? '', /done: .+ (ms|s)$/)
  await row.getByRole('button', { name: 'Suspend a compute' }).click()
  await steps.first().waitFor({ state: 'detached' })
})

/** Queues an operation of an action that no worker knows: it stays unbegun, behind those of its branch. */
async function queueUnbegun(action: string): Promise<void> {
  await catalogQuery(
    at.neap,
    `with p as (update project set last_seq = last_seq + 1, last_operation_at = clock_timestamp()
                 where id = $1 returning *)
     insert into operation (id, account_id, project_id, branch_id, seq, action, excludes, shares, step,
                            deadline_seconds, created_at)
     select gen_random_uuid(), account_id, id, $2, last_seq, $3, array['x'], '{}', 'begun', 60, last_operation_at
       from p`,
    [at.place.project_id, at.place.branch_id, action],
  )
}

test('one that has not begun is cancelled, or says why it cannot be', { skip }, async () => {
  const { page } = at.visit
  await page.goto(address())
  await queueUnbegun('wait_here')
  await queueUnbegun('delete_here')
  const deleting = rows('delete_here')
  await deleting.waitFor()
  assert.ok(await deleting.getByRole('button', { name: 'Cancel' }).isDisabled())
  assert.equal(
    await deleting.getByRole('button', { name: 'Cancel' }).getAttribute('title'),
    'What it removes is deleted already.',
  )
  await deleting.getByRole('button', { name: 'delete_here' }).click()
  await deleting.getByText('It waits until these have ended: wait_here.').waitFor()
  await deleting.getByRole('button', { name: 'delete_here' }).click()
  await rows('wait_here').getByRole('button', { name: 'Cancel' }).click()
  await rows('wait_here').getByText('failed', { exact: true }).waitFor()
  await rows('wait_here').getByRole('button', { name: 'wait_here' }).click()
  await rows('wait_here').getByText('cancelled: by request').waitFor()
})

test('a failed attempt shows its error and when the next one begins', { skip }, async () => {
  const { page } = at.visit
  await page.goto(address())
  await queueUnbegun('tried_again')
  await rows('tried_again').waitFor()
  await catalogQuery(
    at.neap,
    `update operation set status = 'running', started_at = clock_timestamp(), failures_count = 1,
            error = '<img src=x onerror=alert(1)>', retry_at = clock_timestamp() + interval '1 hour',
            run_at = clock_timestamp() + interval '1 hour',
            steps = with_step(steps, step, '<img src=x onerror=alert(1)>')
      where action = 'tried_again'`,
  )
  const row = rows('tried_again')
  await row.getByText('1 failed attempt').waitFor()
  await row.getByRole('button', { name: 'tried_again' }).click()
  await row.getByText('One attempt failed; the next one begins').waitFor()
  assert.equal(await row.getByText('<img src=x onerror=alert(1)>').count(), 2)
  assert.equal(
    await row.getByRole('button', { name: 'Cancel' }).getAttribute('title'),
    'It has begun: only an operation that has not can be cancelled.',
  )
})

test('the filter is kept in the address, and holds for what happens too', { skip }, async () => {
  const { page } = at.visit
  await page.goto(address())
  await page.getByLabel('Action').selectOption('suspend_compute')
  await page.getByLabel('State').selectOption('finished')
  await page.getByLabel('Branch').selectOption(at.place.branch_id)
  await page.waitForURL(/branch=br-.*/)
  await rows('create_timeline').waitFor({ state: 'detached' })
  await page.reload()
  await rows('suspend_compute').first().waitFor()
  assert.equal(await rows('create_timeline').count(), 0)
  assert.equal(await page.getByLabel('State').inputValue(), 'finished')
  const count = await rows('suspend_compute').count()
  const params = { project_id: at.place.project_id, endpoint_id: at.place.endpoint_id }
  const { operations } = await at.neap.call('POST /projects/:project_id/endpoints/:endpoint_id/start', { params })
  await at.neap.ended(operations)
  await suspend(at.neap, at.place)
  await rows('suspend_compute').nth(count).waitFor()
  assert.equal(await rows('start_compute').count(), 0)
  await page.getByLabel('State').selectOption('scheduling')
  await page.getByText('No such operations').waitFor()
})

test('of a thousand operations only those in the window are in the page', { skip }, async () => {
  await insertWakes(at.neap, at.place, 1_000)
  const { page } = at.visit
  await page.goto(address('?action=start_compute'))
  const table = page.getByRole('table', { name: 'Operations' })
  await rows('start_compute').first().waitFor()
  let count = 0
  while (count < 1_000) {
    const height = await page.evaluate(() => {
      scrollTo(0, document.documentElement.scrollHeight)
      return document.documentElement.scrollHeight
    })
    // Another page is read, or there is none.
    await page.waitForFunction(
      (known) =>
        document.documentElement.scrollHeight > known ||
        Number(document.querySelector('[aria-label=Operations]')?.getAttribute('aria-rowcount')) > 0,
      height,
    )
    assert.ok((await page.getByRole('row').count()) < 80)
    count = Number(await table.getAttribute('aria-rowcount'))
  }
  await page.getByRole('row').last().waitFor()
  await expectAccessible(page)
})

test('the operations fit a narrow window, in light and dark, and with a long name', { skip }, async () => {
  await at.neap.call('POST /projects/:project_id/branches', {
    params: { project_id: at.place.project_id },
    body: { branch: { name: 'a-name-from-continuous-integration-'.repeat(4) } },
  })
  for (const colorScheme of ['light', 'dark'] as const) {
    const narrow = await signedIn(at.browser, at.neap, { colorScheme, viewport: { width: 360, height: 740 } })
    await narrow.page.goto(address())
    await narrow.page.getByRole('row', { name: 'tried_again' }).waitFor()
    await expectAccessible(narrow.page)
    assert.ok((await narrow.page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
    await narrow.context.close()
  }
})

test('no page has written an error', { skip }, () => {
  assert.deepEqual(at.visit.problems(), [])
})
