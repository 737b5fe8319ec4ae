import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Neap, startNeap } from '../neap.ts'
import { kill } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'
import { copied, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* The API dies in the midst of each flow and comes back; the browser goes offline; two people work at once. */

const skip = withoutBrowser
let neap: Neap
let browser: Browser
let visit: Visitor
let place: Place
const ofBranch = (path = '') => `${visit.origin}/projects/${place.project_id}/branches/${place.branch_id}${path}`

before(async () => {
  if (skip) return
  neap = await startNeap()
  place = await firstPlace(neap)
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

/** Kills the API, runs this while it is away, and waits until the page has it again. */
async function duringOutage(run: () => Promise<unknown>): Promise<void> {
  neap.process.kill('SIGSTOP')
  try {
    await kill(neap.part('api'))
    await run()
  } finally {
    neap.process.kill('SIGCONT')
  }
  await visit.page.locator('.away:empty').waitFor({ state: 'attached' })
}

interface Flow {
  readonly name: string
  readonly path: () => string
  /** Opens a form and fills it in. */
  readonly fill: () => Promise<unknown>
  /** The button that sends it. */
  readonly verb: string
  /** Sees that it was done, once. */
  readonly done: () => Promise<unknown>
}

const page = () => visit.page
const setting = (name: string) => page().getByRole('region', { name, exact: true })

const FLOWS: readonly Flow[] = [
  {
    name: 'a branch is made',
    path: () => `${visit.origin}/projects/${place.project_id}?do=new-branch`,
    fill: () => page().getByRole('dialog').getByLabel('Name').fill('after all'),
    verb: 'Create branch',
    done: () => page().getByRole('row', { name: 'after all' }).waitFor(),
  },
  {
    name: 'a role is made',
    path: () => ofBranch('/roles?do=new-role'),
    fill: () => page().getByRole('dialog').getByLabel('Name').fill('late'),
    verb: 'Create role',
    done: () => copied(page(), 'Copy the password'),
  },
  {
    name: 'a key is made',
    path: () => `${visit.origin}/keys?do=new-key`,
    fill: () => page().getByRole('dialog').getByLabel('Name').fill('late key'),
    verb: 'Create key',
    done: () => copied(page(), 'Copy the key'),
  },
  {
    name: 'a quota is set',
    path: () => `${visit.origin}/projects/${place.project_id}/settings?do=quotas`,
    fill: () => page().getByRole('dialog').getByLabel('Active time').fill('5'),
    verb: 'Save',
    done: () => setting('Quotas of a month').getByText('of 5.0 h').waitFor(),
  },
  {
    name: 'a branch is renamed',
    path: () => ofBranch('/settings?do=rename'),
    fill: () => page().getByRole('dialog').getByLabel('Name').fill('trunk'),
    verb: 'Rename branch',
    done: () => page().getByRole('heading', { name: 'trunk', exact: true }).waitFor(),
  },
]

for (const { name, path, fill, verb, done } of FLOWS)
  test(`${name} although the API dies meanwhile: the form keeps its fields, and is sent again`, { skip }, async () => {
    await page().goto(path())
    const dialog = page().getByRole('dialog')
    await dialog.waitFor()
    await fill()
    await duringOutage(async () => {
      await dialog.getByRole('button', { name: verb }).click()
      await dialog.getByText('Neap does not answer').waitFor()
    })
    await dialog.getByRole('button', { name: verb }).click()
    await done()
  })

test('pages that are opened during an outage are shown when it ends', { skip }, async () => {
  await page().goto(ofBranch())
  await page().getByRole('heading', { name: 'trunk', exact: true }).waitFor()
  // The code of these pages is loaded before, as by an earlier visit.
  for (const tab of ['Connect', 'Roles and databases', 'Settings', 'Overview'])
    await page().getByRole('link', { name: tab, exact: true }).click()
  await page().reload()
  for (const tab of ['Connect', 'Roles and databases'])
    await page().getByRole('link', { name: tab, exact: true }).click()
  await page().getByRole('row', { name: 'late' }).waitFor()
  await page().getByRole('link', { name: 'Connect', exact: true }).click()
  await page().getByTitle('Copy the connection string').waitFor()
  await duringOutage(async () => {
    await page().getByLabel('Pool connections').uncheck()
    await page().getByText('Neap does not answer').first().waitFor()
  })
  assert.doesNotMatch(await copied(page(), 'Copy the connection string'), /-pooler/)
})

test('a page whose code the API cannot serve now is shown when it is back', { skip }, async () => {
  await page().goto(ofBranch())
  await page().getByRole('heading', { name: 'Compute' }).waitFor()
  await duringOutage(async () => {
    const asked = page().waitForEvent('requestfailed', (request) => request.url().includes('/assets/restore'))
    await page().getByRole('link', { name: 'Restore', exact: true }).click()
    await asked
    await page().getByText('Neap does not answer').waitFor()
  })
  await page().getByRole('region', { name: 'Reset from parent' }).waitFor()
})

test('a page whose code is gone says so, and keeps no other page from being opened', { skip }, async () => {
  const { page: its, context } = await signedIn(browser, neap)
  await its.route('**/assets/insights-*.js', (route) => route.fulfill({ status: 404 }))
  await its.goto(ofBranch('/insights'))
  await its.getByRole('alert').getByText('Reload the console').waitFor()
  await its.getByRole('link', { name: 'Members' }).click()
  await its.getByRole('heading', { name: 'Members' }).waitFor()
  await context.close()
})

/** Types into the editor: where a driver sets the text of the element, Chromium adds inline styles to it. */
async function writeSql(text: string): Promise<void> {
  await page().getByRole('textbox', { name: 'SQL' }).click()
  await page().keyboard.press('ControlOrMeta+A')
  await page().keyboard.insertText(text)
}

test('SQL that runs while the API dies is said to be cut off, not to have failed', { skip }, async () => {
  await page().goto(ofBranch('/sql'))
  await writeSql('SELECT pg_sleep(600)')
  const begun = page().waitForResponse((response) => response.request().postData()?.includes('pg_sleep') ?? false)
  await page().getByRole('button', { name: 'Run', exact: true }).click()
  await begun
  await duringOutage(async () => {
    await page().getByRole('alert').getByText('Cut off').waitFor()
    await page().getByText('Look whether the statements took effect').waitFor()
    // The page has noticed the outage too, which it is to see the end of.
    await page().getByText('Neap does not answer').waitFor()
  })
  await writeSql('SELECT 8 AS eight')
  await page().getByRole('button', { name: 'Run', exact: true }).click()
  await page().getByRole('columnheader', { name: 'eight' }).waitFor()
})

test('a browser that is offline says so, and goes on when it is online', { skip }, async () => {
  const { context } = visit
  await page().goto(ofBranch('/roles'))
  await page().getByRole('row', { name: 'late' }).waitFor()
  await context.setOffline(true)
  await page().getByRole('button', { name: 'New database' }).click()
  await page().getByRole('dialog').getByLabel('Name').fill('offline')
  await page().getByRole('button', { name: 'Create database' }).click()
  await page().getByRole('dialog').getByText('Neap does not answer').waitFor()
  await context.setOffline(false)
  await page().getByRole('button', { name: 'Create database' }).click()
  await page().getByRole('row', { name: 'offline' }).waitFor()
})

test(
  'two people at once: each sees what the other does, and the later one is told what is gone',
  { skip },
  async () => {
    const other = await signedIn(browser, neap)
    const list = `${visit.origin}/projects/${place.project_id}`
    await page().goto(list)
    await other.page.goto(list)
    await page().getByRole('row', { name: 'after all' }).waitFor()
    await other.page.getByRole('row', { name: 'after all' }).getByRole('button', { name: 'Delete' }).click()
    await other.page.getByLabel('Type after all').fill('after all')

    await page().getByRole('row', { name: 'after all' }).getByRole('button', { name: 'Delete' }).click()
    await page().getByLabel('Type after all').fill('after all')
    await page().getByRole('button', { name: 'Delete branch' }).click()
    await page().getByRole('dialog').waitFor({ state: 'detached' })
    await page().getByRole('row', { name: 'after all' }).waitFor({ state: 'detached' })
    await other.page.getByRole('row', { name: 'after all', includeHidden: true }).waitFor({ state: 'detached' })

    const { branch } = await neap.call('POST /projects/:project_id/branches', {
      params: { project_id: place.project_id },
      body: { branch: { name: 'looked at' } },
    })
    await other.page.goto(`${list}/branches/${branch.id}`)
    await other.page.getByRole('heading', { name: 'looked at' }).waitFor()
    await page().getByRole('row', { name: 'looked at' }).getByRole('button', { name: 'Delete' }).click()
    await page().getByLabel('Type looked at').fill('looked at')
    await page().getByRole('button', { name: 'Delete branch' }).click()
    await other.page.getByRole('heading', { name: 'There is no such branch' }).waitFor()
    await other.page.getByRole('link', { name: 'All branches' }).click()

    await other.page.goto(`${list}?do=new-branch`)
    await other.page.getByRole('dialog').getByLabel('Name').fill('same name')
    await page().goto(`${list}?do=new-branch`)
    await page().getByRole('dialog').getByLabel('Name').fill('same name')
    await page().getByRole('button', { name: 'Create branch' }).click()
    await page().getByRole('row', { name: 'same name' }).waitFor()
    await other.page.getByRole('button', { name: 'Create branch' }).click()
    await other.page
      .getByRole('alert')
      .getByText(/exists/)
      .waitFor()
    await other.page.getByRole('button', { name: 'Cancel' }).click()
    await other.page.getByRole('row', { name: 'same name' }).waitFor()
    assert.deepEqual([...visit.problems(), ...other.problems()], [])
  },
)
