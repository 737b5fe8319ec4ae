import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Neap, startNeap } from '../neap.ts'
import { invited, joined, passwordOf, visitByLink } from '../person.ts'
import { expectAccessible, signedIn, startBrowser, visitor, withoutBrowser } from './browser.ts'

/* Persons and organizations in the console: passwords, invitations, members, and the organization that a page shows. */

const skip = withoutBrowser
let neap: Neap
let browser: Browser

before(async () => {
  if (skip) return
  neap = await startNeap()
  browser = await startBrowser()
})

after(async () => {
  await browser?.close()
  await neap?.stop()
})

const heading = (page: Page, name: string) => page.getByRole('heading', { name, exact: true })

async function signIn(page: Page, origin: string, email: string, password: string): Promise<void> {
  await page.goto(origin)
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

test('a person sets a password, signs in by it, and changes it', { skip }, async () => {
  const { page, origin, problems } = await signedIn(browser, neap)
  await page.getByRole('link', { name: 'You' }).click()
  await page.getByLabel('New password').fill('a password of several words')
  await page.getByRole('button', { name: 'Set password' }).click()
  await page.getByText('Your other sessions have ended.').waitFor()
  await page.getByRole('button', { name: 'Change password' }).waitFor()
  assert.equal(await page.getByLabel('New password').inputValue(), '')
  await expectAccessible(page)

  const other = await visitor(browser, neap)
  await signIn(other.page, origin, 'owner@neap.localhost', 'not that one')
  await other.page.getByText('The email or the password is wrong.').waitFor()
  await expectAccessible(other.page)
  await signIn(other.page, origin, 'owner@neap.localhost', 'a password of several words')
  await heading(other.page, 'Projects').waitFor()
  await other.page.goto(`${origin}/you`)
  await other.page.getByLabel('Current password').fill('a password of several words')
  await other.page.getByLabel('New password').fill('a second password of words')
  await other.page.getByRole('button', { name: 'Change password' }).click()
  await other.page.getByText('Your other sessions have ended.').waitFor()
  await page.reload()
  await heading(page, 'Sign in to Neap').waitFor()
  assert.deepEqual([...problems(), ...other.problems()], [])
})

test('an invited person joins by the link; an admin changes the role, and removes the member', { skip }, async () => {
  const { page, problems } = await signedIn(browser, neap)
  await page.getByRole('link', { name: 'Members' }).click()
  await page.getByRole('button', { name: 'Invite' }).click()
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByLabel('Role').selectOption('editor')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Make the link' }).click()
  const link = await page.getByRole('button', { name: '/invitation#' }).locator('code').textContent()
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('table', { name: 'Invitations' }).getByText('ada@example.com').waitFor()
  await expectAccessible(page)

  const ada = await visitor(browser, neap)
  await ada.page.goto(link ?? '')
  await heading(ada.page, 'Join Owner').waitFor()
  assert.equal(new URL(ada.page.url()).hash, '')
  await expectAccessible(ada.page)
  await ada.page.getByLabel('Your name').fill('Ada <b>Lovelace</b>')
  await ada.page.getByLabel('Password').fill('the password of an engine')
  await ada.page.getByRole('button', { name: 'Join' }).click()
  await heading(ada.page, 'Projects').waitFor()
  await ada.page.getByRole('link', { name: 'Members' }).click()
  const disabled = ada.page.getByRole('button', { name: 'Invite' })
  assert.equal(await disabled.isDisabled(), true)
  assert.match((await disabled.getAttribute('title')) ?? '', /Only admins/)

  await page.reload()
  const row = page.getByRole('row', { name: 'Ada <b>Lovelace</b>' })
  await row.getByRole('button', { name: 'Change role' }).click()
  await page.getByRole('combobox', { name: 'Role' }).selectOption('viewer')
  await page.getByRole('dialog').getByRole('button', { name: 'Change role' }).click()
  await row.getByRole('cell', { name: 'viewer' }).waitFor()
  await row.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove member' }).click()
  await row.waitFor({ state: 'detached' })
  await ada.page.reload()
  await heading(ada.page, 'No organization').waitFor()
  await expectAccessible(ada.page)
  await ada.page.getByRole('button', { name: 'Sign out' }).click()
  await heading(ada.page, 'Sign in to Neap').waitFor()
  assert.deepEqual([...problems(), ...ada.problems()], [])
})

test('a revoked invitation says so; who has signed in before joins as the same person', { skip }, async () => {
  const owner = await visitByLink(neap)
  await joined(neap, owner, 'viewer', 'Grace')
  const { id } = (await owner.done('POST', '/organizations', { organization: { name: 'Compilers' } })) as { id: string }
  owner.organization = id
  const token = await invited(owner, 'editor')
  const { page, origin, problems } = await visitor(browser, neap)
  await page.goto(`${origin}/invitation#${token}`)
  await page.getByRole('button', { name: 'I have signed in here before' }).click()
  await page.getByLabel('Email').fill('grace@example.com')
  await page.getByLabel('Password').fill(passwordOf('Grace'))
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Join as Grace' }).click()
  await heading(page, 'Projects').waitFor()
  assert.equal(await page.getByLabel('Organization').locator('option:checked').textContent(), 'Compilers')

  const other = await visitor(browser, neap)
  await other.page.goto(`${origin}/invitation#${token}`)
  await other.page.getByText('The invitation was used or revoked').waitFor()
  assert.deepEqual([...problems(), ...other.problems()], [])
})

test('a viewer is told beforehand what he cannot change', { skip }, async () => {
  await joined(neap, await visitByLink(neap), 'viewer', 'Vera')
  const { page, origin, problems } = await visitor(browser, neap)
  await signIn(page, origin, 'vera@example.com', passwordOf('Vera'))
  const created = page.getByRole('button', { name: 'New project' })
  await page.getByTitle('You are a viewer of this organization').first().waitFor()
  assert.ok(await created.isDisabled())
  await page.getByRole('link', { name: 'first', exact: true }).click()
  const row = page.getByRole('row', { name: 'main' })
  await row.getByRole('button', { name: /Start|Suspend/, disabled: true }).waitFor()
  await row.getByRole('link', { name: 'main' }).click()
  await page.getByRole('button', { name: 'Resize', disabled: true }).waitFor()
  await expectAccessible(page)
  assert.deepEqual(problems(), [])
})

test('a person creates an organization, switches, and leaves', { skip }, async () => {
  const { page, origin, problems } = await signedIn(browser, neap)
  await page.getByRole('link', { name: 'You' }).click()
  await page.getByRole('button', { name: 'New organization' }).click()
  await page.getByLabel('Name', { exact: true }).last().fill('Second')
  await page.getByRole('button', { name: 'Create organization' }).click()
  await page.getByText('No projects yet').waitFor()
  const chosen = page.getByLabel('Organization')
  assert.equal(await chosen.locator('option:checked').textContent(), 'Second')
  await chosen.selectOption({ label: 'Owner' })
  await page.getByRole('link', { name: 'first', exact: true }).waitFor()
  await chosen.selectOption({ label: 'Second' })
  await page.getByText('No projects yet').waitFor()
  await page.getByRole('link', { name: 'Members' }).click()
  await page.getByRole('button', { name: 'Rename' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('Renamed')
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click()
  await heading(page, 'Renamed').waitFor()
  // The only admin is told why he cannot go.
  await page.goto(`${origin}/you`)
  const row = page.getByRole('row', { name: 'Renamed' })
  await row.getByRole('button', { name: 'Leave' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click()
  await page.getByText('Make another member an admin first.').waitFor()
  assert.deepEqual(problems(), [])
})

test('the pages fit in 360 pixels', { skip }, async () => {
  const { page, origin } = await signedIn(browser, neap, { viewport: { width: 360, height: 740 } })
  for (const path of ['/you', '/members']) {
    await page.goto(origin + path)
    await page.getByRole('table').first().waitFor()
    const width = await page.evaluate(() => document.documentElement.scrollWidth)
    assert.ok(width <= 360, `${path} is ${width} px wide`)
    await expectAccessible(page)
  }
})
