import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, Locator } from 'playwright-core'
import { peer } from '../clients/peers.ts'
import { query } from '../clients.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, type Place } from '../project.ts'
import { expectAccessible, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* The past of branches in the console: moments, snapshots, and branches that were deleted. */

const PROGRAM = { NEAP_PGBACKREST: peer('pgbackrest/pgbackrest') }
const skip = withoutBrowser
let neap: Neap
let browser: Browser
let visit: Visitor
let main: Place
const ofProject = (path = '') => `${visit.origin}/projects/${main.project_id}${path}`

before(async () => {
  if (skip) return
  neap = await startNeap({ env: { NEAP_BRANCH_RECOVER_HOURS: '168', ...PROGRAM } })
  main = await firstPlace(neap)
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

const dialog = (): Locator => visit.page.getByRole('dialog')
const button = (name: string): Locator => visit.page.getByRole('button', { name, exact: true })

/** Sends the form of a dialog, and waits until it is done. */
async function submit(verb: string): Promise<void> {
  await dialog().getByRole('button', { name: verb }).click()
  await dialog().waitFor({ state: 'detached' })
}

async function branches() {
  const { project_id } = main
  return (await neap.call('GET /projects/:project_id/branches', { params: { project_id }, query: { limit: 100 } }))
    .branches
}

const names = async () => (await branches()).map(({ name }) => name).sort()

/** Waits until no operation of the project is under way. */
async function settled(): Promise<void> {
  const { project_id } = main
  const { operations } = await neap.call('GET /projects/:project_id/operations', {
    params: { project_id },
    query: { limit: 20 },
  })
  await neap.ended(operations)
}

test('a branch that was deleted is listed, recovered, and removed for good', { skip }, async () => {
  const { page } = visit
  const { branch_id } = await branchOff(neap, main)
  await until('its disk usage was measured', async () => {
    const { disk_usage } = await neap.call('GET /projects/:project_id/branches/:branch_id/disk_usage', {
      params: { ...main, branch_id },
    })
    return disk_usage.measured_at
  })
  await page.goto(ofProject(`/branches/${branch_id}`))
  await page.getByText('Deletion frees').waitFor()
  await page.getByText(/^\d+\.\d MiB its own/).waitFor()
  await page.goto(ofProject(`/branches/${branch_id}/settings?do=delete`))
  await dialog().getByText('The branch can be recovered with its data for 7 days').waitFor()
  await dialog()
    .getByText(/once it is removed, frees \d+\.\d MiB on the disk/)
    .waitFor()
  await dialog().getByLabel(`Type ${branch_id}`).fill(branch_id)
  await submit('Delete branch')
  const deleted = page.getByRole('table', { name: 'Deleted branches' })
  await deleted.getByRole('row', { name: branch_id }).waitFor()
  await expectAccessible(page)
  await settled()
  await button(`Recover ${branch_id}`).click()
  await deleted.waitFor({ state: 'detached' })
  await page.getByRole('table', { name: 'Branches', exact: true }).getByRole('row', { name: branch_id }).waitFor()

  await page.goto(ofProject(`/branches/${branch_id}/settings?do=delete`))
  await dialog().getByLabel('Remove its data now').check()
  await dialog().getByLabel(`Type ${branch_id}`).fill(branch_id)
  await submit('Delete branch')
  await settled()
  await page.reload()
  await page.getByRole('row', { name: 'main' }).waitFor()
  assert.equal(await deleted.count(), 0)
})

test('a branch begins with a time of its parent, with its schema, or masked', { skip }, async () => {
  const { page } = visit
  await query(neap, main.uri, 'create table person as select 7 as id, $$ann@example.com$$ as email')
  const create = async (name: string, data: string, fill: () => Promise<void>) => {
    await page.goto(ofProject('?do=new-branch'))
    await dialog().getByLabel('Name').fill(name)
    await dialog().locator('[name=data]').selectOption(data)
    await fill()
    await page.getByText('As a command').click()
    const command = await page.getByText(/npx neap branches create/).textContent()
    await submit('Create branch')
    await settled()
    const made = (await branches()).find((each) => each.name === name)
    assert.ok(made, name)
    return { made, command }
  }
  const rowsOf = async (branch_id: string) => {
    const { project_id } = main
    const { endpoints } = await neap.call('GET /projects/:project_id/branches/:branch_id/endpoints', {
      params: { project_id, branch_id },
    })
    return query(neap, main.uri.replace(main.endpoint_id, endpoints[0]?.id ?? ''), 'select id, email from person')
  }
  const timed = await create('timed', 'what its parent had at a time', async () => {
    await dialog().locator('[type=datetime-local]').waitFor()
  })
  assert.match(timed.command ?? '', /--at 20\S+Z/)
  assert.ok(timed.made.parent_timestamp)
  const empty = await create('empty', 'the schema of its parent only', async () => {})
  assert.deepEqual(await rowsOf(empty.made.id), [])
  await page.goto(ofProject('?do=new-branch'))
  await dialog().locator('[name=data]').selectOption('what its parent has, masked')
  await dialog().getByLabel('Masks').fill('person.email')
  await dialog().getByRole('button', { name: 'Create branch' }).click()
  await dialog().getByText('This is no mask: person.email').waitFor()
  const masked = await create('masked', 'what its parent has, masked', () =>
    dialog().getByLabel('Masks').fill(`neondb.public.person.email='hidden'\n`),
  )
  assert.match(masked.command ?? '', /--mask/)
  assert.deepEqual(await rowsOf(masked.made.id), [{ id: 7, email: 'hidden' }])
})

test('a moment is compared with now, and the branch restored to it', { skip }, async () => {
  const { page } = visit
  await query(neap, main.uri, 'create table entry as select 1 as id')
  // The field has whole seconds: the commits have to lie in different ones.
  const then = Math.ceil(Date.now() / 1000) * 1000
  await until('the next second', () => Date.now() > then)
  await query(neap, main.uri, 'insert into entry values (2), (3)')
  await query(neap, main.uri, 'alter table entry add column later int')
  await until('another second', () => Date.now() > then + 1_000)
  const made = await names()
  await page.goto(ofProject(`/branches/${main.branch_id}/restore?do=restore-moment`))
  await dialog().getByRole('slider').waitFor()
  const local = new Date(then - new Date(then).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
  await dialog().locator('[type=datetime-local]').fill(local)
  await dialog().getByRole('button', { name: 'Compare with now' }).click()
  await dialog().getByRole('row', { name: 'public.entry 1 3' }).waitFor()
  await dialog()
    .getByText('+    later integer')
    .or(dialog().getByText(/later integer/))
    .first()
    .waitFor()
  await expectAccessible(page)
  assert.deepEqual(await names(), made)
  await dialog().getByLabel('Type main').fill('main')
  await submit('Restore branch')
  await settled()
  assert.deepEqual(await query(neap, main.uri, 'select * from entry'), [{ id: 1 }])
  assert.ok((await branches()).some(({ name }) => name === 'main-before'))
})

test('a snapshot is taken, restored and removed; others are taken by themselves', { skip }, async () => {
  const { page } = visit
  const restoring = ofProject(`/branches/${main.branch_id}/restore`)
  await page.goto(`${restoring}?do=snapshot`)
  await dialog().getByLabel('Name').fill('release')
  await submit('Take snapshot')
  const row = page.getByRole('table', { name: 'Snapshots' }).getByRole('row', { name: 'release' })
  await row.waitFor()
  await settled()
  await row.getByRole('button', { name: 'Restore' }).click()
  await dialog().getByLabel('Name of the other branch').fill('of-release')
  await submit('Restore snapshot')
  await settled()
  assert.ok((await branches()).some(({ name, restored_as }) => name === 'of-release' && restored_as === main.branch_id))

  await button('Schedule').click()
  await dialog().locator('[name=frequency]').selectOption('daily')
  await dialog().locator('[name=hour]').fill('3')
  await submit('Save')
  await button('Taken daily').waitFor()
  const { project_id, branch_id } = main
  const { schedule } = await neap.call('GET /projects/:project_id/branches/:branch_id/backup_schedule', {
    params: { project_id, branch_id },
  })
  assert.deepEqual(schedule, [{ frequency: 'daily', hour: 3, retention_seconds: 604_800 }])

  await row.getByRole('button', { name: 'Remove' }).click()
  await dialog().getByLabel('Type release').fill('release')
  await submit('Remove snapshot')
  await row.waitFor({ state: 'detached' })
  assert.deepEqual(visit.problems(), [])
})

test('a branch tells until when it is backed up, and how its last drill ended', { skip }, async () => {
  const { page } = visit
  const repository = mkdtempSync(join(tmpdir(), 'neap-elsewhere-'))
  const backup = async (...args: string[]) => {
    const { code, stderr } = await neapRun(['backup', ...args], envOf(neap.ready.data_dir, PROGRAM))
    assert.equal(code, 0, stderr)
  }
  try {
    await page.goto(ofProject(`/branches/${main.branch_id}`))
    await page.getByText('On disk').waitFor()
    assert.equal(await page.getByText('Last drill').count(), 0)
    await backup('init', repository)
    await backup('run')
    await backup('drill', main.branch_id)
    await page.reload()
    await page.getByText(/has (all of it|what was committed until)/).waitFor()
    await page.getByText(/restored, and good .*, \d+ rows?/).waitFor()
    await expectAccessible(page)
    assert.deepEqual(visit.problems(), [])
    await backup('end')
  } finally {
    rmSync(repository, { recursive: true, force: true })
  }
})
