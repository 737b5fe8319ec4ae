import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { query } from '../clients.ts'
import { until } from '../processes.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, newProject, type Place } from '../project.ts'
import { openState, type State } from '../surface/state.ts'
import { expectAccessible, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* The tree of branches, changes of one and of many, and ten thousand of them. */

const skip = withoutBrowser
const MANY = 10_000
let neap: Neap
let state: State
let browser: Browser
let visit: Visitor
let place: Place
const project = () => ({ project_id: place.project_id })
const ofProject = (path = '') => `${visit.origin}/projects/${place.project_id}${path}`

before(async () => {
  if (skip) return
  neap = await startNeap()
  state = await openState(neap)
  place = await firstPlace(neap)
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
})

after(async () => {
  await browser?.close()
  await state?.close()
  await neap?.stop()
})

async function makeBranch(name: string, parent_id?: string, endpoint = false): Promise<string> {
  const { branch, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: project(),
    body: { branch: { name, parent_id }, ...(endpoint && { endpoints: [{ type: 'read_write' }] }) },
  })
  await neap.ended(operations)
  return branch.id
}

const dialog = () => visit.page.getByRole('dialog')

/** Sends the form of a dialog, and waits until it is done. */
async function submit(verb: string): Promise<void> {
  await dialog().getByRole('button', { name: verb }).click()
  await dialog().waitFor({ state: 'detached' })
}

const branchNamed = async (search: string) =>
  (await neap.call('GET /projects/:project_id/branches', { params: project(), query: { search, limit: 10 } })).branches

test(
  'a branch is made below another one with a lifetime, and is found by the search in the address',
  { skip },
  async () => {
    const { page } = visit
    await page.goto(ofProject())
    await page.getByRole('button', { name: 'New branch' }).click()
    await dialog().getByLabel('Name').fill('short-lived')
    await dialog()
      .getByRole('combobox', { name: /^Parent/ })
      .fill('main')
    assert.ok(await dialog().getByLabel('Delete it after').isChecked(), 'a lifetime is ticked')
    await dialog().getByLabel('Lifetime').selectOption('7 days')
    await page.getByText('As a command').click()
    await page.getByText(/npx neap branches create .*--parent br-\S+ --expires 7d -- short-lived/).waitFor()
    await submit('Create branch')
    await page.getByRole('row', { name: 'short-lived' }).getByText('expires').waitFor()
    const [branch] = await branchNamed('short-lived')
    assert.equal(branch?.parent_id, place.branch_id)
    assert.ok(Date.parse(branch?.expires_at ?? '') > Date.now() + 6 * 86_400_000)

    await page.getByLabel('Search branches').fill('SHORT')
    await page.getByRole('row', { name: 'main' }).waitFor({ state: 'detached' })
    assert.match(page.url(), /search=SHORT/)
    await page.reload()
    await page.getByRole('row', { name: 'short-lived' }).waitFor()
    await page.getByLabel('Search branches').fill('nowhere to be found')
    await page.getByText('No branch matches').waitFor()
    await page.getByLabel('Search branches').fill('')
    await page.getByRole('row', { name: 'main' }).waitFor()
  },
)

test('a branch is renamed, protected, made the default and given an expiry', { skip }, async () => {
  const { page } = visit
  const id = await makeBranch('plain')
  await page.goto(ofProject(`/branches/${id}/settings`))
  const setting = (name: string) => page.getByRole('region', { name, exact: true })
  await setting('Name').getByRole('button', { name: 'Rename' }).click()
  await dialog().getByLabel('Name').fill('<img src=x onerror=alert(1)>')
  await submit('Rename branch')
  await page.getByRole('heading', { name: '<img src=x onerror=alert(1)>' }).waitFor()

  await setting('Expiry').getByRole('button').click()
  await dialog().getByLabel('Delete it after').check()
  await submit('Save')
  await setting('Expiry').getByText('It is deleted').waitFor()
  assert.ok(await setting('Protection').getByRole('button').isDisabled(), 'what expires is not protected')
  await setting('Expiry').getByRole('button').click()
  await dialog().getByLabel('Delete it after').uncheck()
  await submit('Save')
  await setting('Expiry').getByText('It is kept').waitFor()

  await setting('Protection').getByRole('button').click()
  await submit('Protect branch')
  await setting('Protection').getByText('Protected').waitFor()
  assert.ok(await setting('Delete').getByRole('button').isDisabled())
  await setting('Default').getByRole('button').click()
  await submit('Make default')
  await setting('Default').getByText('The project’s default branch.').waitFor()
  await neap.call('POST /projects/:project_id/branches/:branch_id/set_as_default', { params: place })
})

test('many branches are deleted at once; protected and default ones are not, and say why', { skip }, async () => {
  const { page } = visit
  const top = await makeBranch('bulk-parent')
  await makeBranch('bulk-child', top)
  await makeBranch('bulk-other')
  const kept = await makeBranch('bulk-protected')
  await neap.call('PATCH /projects/:project_id/branches/:branch_id', {
    params: { ...project(), branch_id: kept },
    body: { branch: { protected: true } },
  })
  await page.goto(ofProject())
  const box = (name: string) => page.getByLabel(`Select ${name}`, { exact: true })
  assert.ok(await box('bulk-protected').isDisabled())
  assert.match((await box('bulk-protected').getAttribute('title')) ?? '', /take its protection away first/)
  assert.match((await box('main').getAttribute('title')) ?? '', /default branch cannot be deleted/)
  for (const name of ['bulk-parent', 'bulk-child', 'bulk-other']) await box(name).check()
  await page.getByRole('button', { name: 'Delete 3 branches' }).click()
  await dialog().getByLabel('Type 3').fill('3')
  await submit('Delete them')
  for (const name of ['bulk-parent', 'bulk-child', 'bulk-other'])
    await page.getByRole('row', { name }).waitFor({ state: 'detached' })
  assert.deepEqual(
    (await branchNamed('bulk')).map(({ name }) => name),
    ['bulk-protected'],
  )

  const parent = await makeBranch('half-parent')
  await makeBranch('half-child', parent)
  await box('half-parent').check()
  await page.getByRole('button', { name: 'Delete 1 branch' }).click()
  await dialog().getByLabel('Type 1').fill('1')
  await page.getByRole('button', { name: 'Delete them' }).click()
  await page.getByText('half-parent: cannot delete branch that has children').waitFor()
  await page.getByRole('button', { name: 'Done' }).click()
})

test('a branch is reset from its parent, and restored from another with its data kept', { skip }, async () => {
  const { page } = visit
  await query(neap, place.uri, 'create table of_main (n int)')
  const id = await makeBranch('to-reset', place.branch_id, true)
  await page.goto(ofProject(`/branches/${id}/restore`))
  await page.getByRole('button', { name: 'Reset', exact: true }).click()
  await dialog().getByLabel('Type to-reset').fill('to-reset')
  await submit('Reset branch')
  await page.getByText('It was given other data').waitFor()

  await page.getByRole('button', { name: 'Restore', exact: true }).click()
  await dialog().getByLabel('From').fill('short-lived')
  await dialog().getByLabel('Keep its data as').fill('kept-data')
  await dialog().getByLabel('Type to-reset').fill('to-reset')
  await submit('Restore branch')
  assert.equal((await branchNamed('kept-data')).length, 1)
})

test(
  'the schemas of two branches are compared; 20,000 lines are in the page only where they are seen',
  { skip },
  async () => {
    const { page } = visit
    const made = await newProject(neap)
    const { branch, operations } = await neap.call('POST /projects/:project_id/branches', {
      params: { project_id: made.project_id },
      body: { branch: { name: 'changed' }, endpoints: [{ type: 'read_write' }] },
    })
    await neap.ended(operations)
    // A column is a line of the dump.
    const many = `do $$ declare columns text; begin
    select string_agg(format('c%s int', n), ', ') into columns from generate_series(1, 1500) n;
    for n in 1..14 loop execute format('create table t%s (%s)', n, columns); end loop;
  end $$`
    await query(neap, made.uri, many)
    await page.goto(`${visit.origin}/projects/${made.project_id}/branches/${branch.id}/schema`)
    const lines = page.locator('.diff code')
    await lines.first().waitFor()
    await page.getByText(/2\d,\d{3} lines fewer/).waitFor()
    assert.ok((await lines.count()) < 150)
    await page.getByRole('region', { name: 'Differences' }).focus()
    await page.keyboard.press('End')
    await page.locator('.diff code', { hasText: 'c1499' }).last().waitFor()
    await expectAccessible(page)
  },
)

test(
  'ten thousand branches: the first are shown while the rest is read, and few are in the page',
  { skip },
  async () => {
    const { page } = visit
    const { project_id } = await newProject(neap)
    await state.query(
      `with parent as (select * from branch where project_id = $1 and is_default),
          stored as (insert into store (id, branch_id, host_id, parent_id, made_from)
                     select 'br-many-' || n, 'br-many-' || n, s.host_id, s.id, 'clone'
                       from parent p join store s on s.id = p.store_id, generate_series(1, $2::int) n)
     insert into branch (id, account_id, project_id, parent_id, name, is_default, protected, store_id, current_state,
                         creation_source)
     select 'br-many-' || n, account_id, project_id,
            case when n % 10 = 0 or n < 10 then id else 'br-many-' || n / 10 * 10 end,
            'preview-' || n, false, false, 'br-many-' || n, 'ready', 'console'
       from parent, generate_series(1, $2::int) n`,
      [project_id, MANY],
    )
    await page.goto(`${visit.origin}/projects/${project_id}`)
    await page.getByRole('row', { name: 'preview-1 ' }).first().waitFor()
    await page.getByText('10,001 branches').waitFor()
    assert.ok((await page.getByRole('row').count()) < 60)
    await page.getByText('read …').waitFor({ state: 'detached', timeout: 60_000 })
    // The page may grow after the key was pressed.
    await until('the last row is in the window', async () => {
      await page.keyboard.press('End')
      return page.getByRole('row', { name: 'preview-9999' }).isVisible()
    })
    assert.ok((await page.getByRole('row').count()) < 60)

    // A change elsewhere is merged in: the list is not read anew.
    const lists: string[] = []
    page.on('request', (request) => {
      if (/\/branches\?.*created_at/.test(request.url())) lists.push(request.url())
    })
    await page.getByLabel('Search branches').fill('preview-777')
    await page.getByRole('row', { name: 'preview-7770' }).waitFor()
    assert.equal(lists.length, 1)
    await neap.call('PATCH /projects/:project_id/branches/:branch_id', {
      params: { project_id, branch_id: 'br-many-777' },
      body: { branch: { name: 'preview-777-renamed' } },
    })
    await page.getByRole('row', { name: 'preview-777-renamed' }).waitFor()
    assert.equal(lists.length, 1)
  },
)

test('no page has written an error', { skip }, () => {
  assert.deepEqual(visit.problems(), [])
})
