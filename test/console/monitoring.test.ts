import assert from 'node:assert/strict'
import { test } from 'node:test'
import { suspend } from '../project.ts'
import { expectAccessible, signedIn, withoutBrowser } from './browser.ts'
import { insertFigures, insertWakes } from './figures.ts'
import { openedConsole } from './opened.ts'

/* The charts of a branch's compute. */

const skip = withoutBrowser
const at = openedConsole(async (neap, place) => {
  await insertFigures(neap, place, 24 * 31)
  await insertWakes(neap, place, 40)
})

const address = (search = '') => `/projects/${at.place.project_id}/branches/${at.place.branch_id}/monitoring${search}`
const chart = (title: string) => at.visit.page.getByRole('figure', { name: title })

async function open(search?: string): Promise<void> {
  await at.visit.page.goto(at.visit.origin + address(search))
  await chart('Memory').locator('canvas').waitFor()
}

test('ranges are kept in the address, and uPlot is loaded with the charts only', { skip }, async () => {
  const { page, origin } = at.visit
  const loaded: string[] = []
  page.on('response', (response) => void loaded.push(response.url()))
  await page.goto(`${origin}/projects/${at.place.project_id}/branches/${at.place.branch_id}`)
  await page.getByRole('region', { name: 'Compute' }).waitFor()
  assert.ok(loaded.length > 0 && !loaded.some((url) => /monitoring|uplot/i.test(url)), loaded.join('\n'))
  await page.getByRole('link', { name: 'Monitoring' }).click()
  await chart('Memory').locator('canvas').waitFor()
  for (const [title, range] of [
    ['7 days', '7d'],
    ['24 hours', '24h'],
  ] as const) {
    await page.getByRole('button', { name: title }).click()
    await page.waitForURL(`**${address(`?range=${range}`)}`)
  }
  await page.reload()
  await page.getByRole('button', { name: '24 hours', pressed: true }).waitFor()
  await page.goBack()
  await page.getByRole('button', { name: '7 days', pressed: true }).waitFor()
})

test('the last values stay while the compute sleeps', { skip }, async () => {
  await suspend(at.neap, at.place)
  await open('?range=24h')
  const shown = async (title: string) => (await chart(title).getByRole('img').getAttribute('aria-label')) ?? ''
  assert.match(await shown('Data'), /Data: latest [1-9]/)
  assert.match(await shown('Size and CPU'), /Size \(CU\): latest [\d.]+, at most 3\.00/)
  assert.match(await shown('Wake latency'), /Longest: latest 300 ms/)
  assert.match(await shown('Cache hits'), /Hits: latest 9\d/)
})

test('a time selected over one chart is that of all', { skip }, async () => {
  await open('?range=24h')
  const { page } = at.visit
  const over = chart('Memory').locator('.u-over')
  const box = await over.boundingBox()
  assert.ok(box)
  const y = box.y + box.height / 2
  await page.mouse.move(box.x + box.width * 0.25, y)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.4, y)
  await page.mouse.move(box.x + box.width * 0.5, y)
  await page.mouse.up()
  await page.waitForURL(/from=/)
  const { searchParams } = new URL(page.url())
  const [from, to] = ['from', 'to'].map((name) => Date.parse(searchParams.get(name) ?? ''))
  const hours = ((to ?? 0) - (from ?? 0)) / 3_600_000
  assert.ok(Math.abs(hours - 6) < 0.5, `${hours} hours`)
  await page.reload()
  await chart('Connections').locator('canvas').waitFor()
  await page.getByRole('button', { name: 'Zoom out' }).click()
  await page.waitForURL((url) => url.searchParams.get('from') !== searchParams.get('from'))
  await page.getByRole('button', { name: '1 hour' }).click()
  await page.waitForURL(/range=1h/)
})

test('a time that makes no sense in the address is the last hour', { skip }, async () => {
  for (const search of ['?range=century', '?from=x&to=y', '?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z']) {
    await at.visit.page.goto(at.visit.origin + address(search))
    await at.visit.page.getByRole('button', { name: '1 hour', pressed: true }).waitFor()
  }
})

test('the figures and the changes of size are tables too', { skip }, async () => {
  await open('?range=24h')
  const { page } = at.visit
  await page.getByText('All figures as a table').click()
  // More rows than this are there once the table has been made.
  await page.getByRole('table', { name: 'Figures' }).getByRole('row').nth(100).waitFor()
  await page.getByText('12 changes of size').click()
  await page
    .getByRole('table', { name: 'Changes of size' })
    .getByText('its processes wanted 1.90 CPUs')
    .first()
    .waitFor()
  await expectAccessible(page)
})

test('the charts fit a narrow window, in light and dark', { skip }, async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const narrow = await signedIn(at.browser, at.neap, { colorScheme, viewport: { width: 360, height: 740 } })
    await narrow.page.goto(narrow.origin + address('?range=7d'))
    await narrow.page.locator('canvas').first().waitFor()
    await expectAccessible(narrow.page)
    assert.ok((await narrow.page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
    await narrow.context.close()
  }
})

test('no page has written an error', { skip }, () => {
  assert.deepEqual(at.visit.problems(), [])
})
