/* The console in a real browser: what it loads, how soon it can be used, and how quickly it answers. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { CDPSession, Page } from 'playwright-core'
import { catalogQuery } from '../test/admin.ts'
import { signedIn, startBrowser } from '../test/console/browser.ts'
import { type Neap, startNeap } from '../test/neap.ts'
import { percentile, report } from './samples.ts'

const [loads = 15, interactions = 100, changes = 30, branches = 10_000] = process.argv.slice(2).map(Number)

const firstPaint: number[] = []
const interactive: number[] = []
const paintOfMany: number[] = []
const answered: number[] = []
const seen: number[] = []
const kibibytes: Record<string, number> = {}
const neap = await startNeap({
  env: { NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_CPU_PER_KEY: '0' },
})
const browser = await startBrowser()
try {
  const { page, origin, context } = await signedIn(browser, neap)
  const project = `${origin}/projects/${neap.ready.project_id}`
  // The page notes when its first row is there: the time that Playwright takes to ask is not the console's.
  await page.addInitScript(markRows)
  const session = await context.newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.setCacheDisabled', { cacheDisabled: true })
  kibibytes['first load'] = await transferred(session, /./, async () => {
    await page.goto(origin)
    await page.getByRole('row', { name: 'first' }).waitFor()
  })
  for (let load = 0; load < loads; load++) {
    interactive.push(await timeOf(page, origin))
    firstPaint.push(await paintOf(page))
  }
  await page.goto(project)
  await page.getByRole('row', { name: 'main' }).waitFor()
  for (let round = -5; round < interactions; round++) {
    const ms = [await pressed(page, 'New branch', 'dialog'), await pressed(page, 'Cancel')]
    if (round >= 0) answered.push(...ms)
  }
  await measureChanges(page)
  await makeBranches(neap, branches)
  await page.goto('about:blank')
  for (let load = 0; load < loads; load++) {
    paintOfMany.push(await timeOf(page, project))
    await page.goto('about:blank')
  }
} finally {
  await browser.close()
  await neap.stop()
}

/** Kibibytes of the bodies and heads of the answers whose address matches, until an action has ended. */
async function transferred(session: CDPSession, which: RegExp, act: () => Promise<void>): Promise<number> {
  const wanted = new Set<string>()
  let bytes = 0
  const begun = ({ requestId, response }: { requestId: string; response: { url: string } }) => {
    if (which.test(response.url)) wanted.add(requestId)
  }
  const ended = ({ requestId, encodedDataLength }: { requestId: string; encodedDataLength: number }) => {
    if (wanted.has(requestId)) bytes += encodedDataLength
  }
  session.on('Network.responseReceived', begun)
  session.on('Network.loadingFinished', ended)
  await act()
  await sleep(500)
  session.off('Network.responseReceived', begun)
  session.off('Network.loadingFinished', ended)
  return bytes / 1024
}

/** Milliseconds from a navigation to the frame that shows the first row. */
async function timeOf(page: Page, url: string): Promise<number> {
  await page.goto(url)
  const mark = await page.waitForFunction(() => performance.getEntriesByName('rows')[0]?.startTime)
  return (await mark.jsonValue()) ?? Number.NaN
}

/** Runs in the page: marks the frame that shows the first row of a table. */
function markRows(): void {
  const observer = new MutationObserver(() => {
    if (document.querySelectorAll('[role=row]').length < 2) return
    observer.disconnect()
    requestAnimationFrame(() => performance.mark('rows'))
  })
  observer.observe(document, { childList: true, subtree: true })
}

/** Milliseconds from the navigation to the first contentful paint (Paint Timing, W3C). */
function paintOf(page: Page): Promise<number> {
  return page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Number.NaN)
}

/** Milliseconds from a click on a button to the frame after which a dialog is there, or no longer. */
function pressed(page: Page, name: string, role?: 'dialog'): Promise<number> {
  return page.evaluate(
    async ([text, wanted]) => {
      const button = [...document.querySelectorAll('button')].find((each) => each.textContent === text)
      const begun = performance.now()
      button?.click()
      const isDone = () => (document.querySelector('[role=dialog]') !== null) === (wanted === 'dialog')
      while (!isDone()) await new Promise((resolve) => requestAnimationFrame(resolve))
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
      return performance.now() - begun
    },
    [name, role],
  )
}

/** Makes branches by the API while the page lists them. */
async function measureChanges(page: Page): Promise<void> {
  const params = { project_id: neap.ready.project_id ?? '' }
  for (let change = 0; change < changes; change++) {
    const name = `seen-${change}`
    // Of a long list only the rows in the window are in the page: the number of branches is.
    const shown = page.evaluate(
      (text) =>
        new Promise<number>((resolve) => {
          const observer = new MutationObserver(() => {
            if (!document.body.textContent.includes(text)) return
            observer.disconnect()
            requestAnimationFrame(() => resolve(Date.now()))
          })
          observer.observe(document, { childList: true, subtree: true, characterData: true })
        }),
      `${change + 2} branches`,
    )
    const begun = Date.now()
    await neap.call('POST /projects/:project_id/branches', { params, body: { branch: { name } } })
    seen.push((await shown) - begun)
    await sleep(200)
  }
}

async function makeBranches(at: Neap, count: number): Promise<void> {
  await catalogQuery(
    at,
    `begin; set local session_replication_role = replica;
     insert into branch (id, account_id, project_id, parent_id, name, is_default, current_state, applied_version)
       select 'br-many-' || n, b.account_id, b.project_id, b.id, 'many-' || n, false, 'ready', 1
         from branch b, generate_series(1, ${count}) n where b.is_default and b.project_id = '${at.ready.project_id}';
     commit; analyze`,
  )
}

report(
  'console',
  [
    `headless Chromium beside the API; ${loads} loads without a cache; ${interactions} dialogs opened and closed;`,
    `${changes} branches made elsewhere, from the request to the frame that shows them;`,
    `${branches} branches in one project`,
  ],
  {
    'first contentful paint': firstPaint,
    'interactive: projects listed': interactive,
    interaction: answered,
    'change elsewhere seen': seen,
    [`rows of ${branches} branches`]: paintOfMany,
  },
  [
    { what: 'first load, compressed', value: kibibytes['first load'] ?? Number.NaN, most: 180, unit: ' KiB' },
    { what: 'interactive, p50', value: percentile(interactive, 0.5), most: 1_000, unit: ' ms' },
    { what: 'interaction, p95', value: percentile(answered, 0.95), most: 50, unit: ' ms' },
    { what: 'change elsewhere seen, p95', value: percentile(seen, 0.95), most: 300, unit: ' ms' },
    { what: `first rows of ${branches} branches, p50`, value: percentile(paintOfMany, 0.5), most: 1_000, unit: ' ms' },
  ],
)
