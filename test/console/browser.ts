import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { Neap } from '../neap.ts'

const CHROMIUM = process.env['NEAP_TEST_CHROMIUM'] ?? '/usr/bin/chromium'

/** Why the console is not tested here; false where it is. */
export const withoutBrowser = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}: install chromium`

// Chromium asks its maker's hosts for updates and components unless told not to.
const ARGS = [
  '--no-sandbox',
  '--disable-quic',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export const startBrowser = (): Promise<Browser> => chromium.launch({ executablePath: CHROMIUM, args: ARGS })

/** A browser without cookies, and the errors on its pages' consoles. */
export interface Visitor {
  readonly context: BrowserContext
  readonly page: Page
  readonly origin: string
  /** Errors so far, but those that the network reports while the API is away. */
  readonly problems: () => string[]
}

export async function visitor(browser: Browser, neap: Neap, options: BrowserContextOptions = {}): Promise<Visitor> {
  const origin = new URL(neap.ready.api_url).origin
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'], ...options })
  context.setDefaultTimeout(20_000)
  const page = await context.newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      problems.push(message.text())
  })
  return { context, page, origin, problems: () => problems }
}

/** A browser of the owner of this Neap. */
export async function signedIn(browser: Browser, neap: Neap, options?: BrowserContextOptions): Promise<Visitor> {
  const visit = await visitor(browser, neap, options)
  const { url } = await neap.call('POST /sign_in_links', {})
  await visit.page.goto(url)
  await visit.page.getByRole('heading', { name: 'Projects' }).waitFor()
  return visit
}

/** Copies a text by the button with this title. Returns what is on the clipboard once the button says so. */
export async function copied(page: Page, title: string): Promise<string> {
  const button = page.getByTitle(title)
  await button.click()
  await button.getByText('copied').waitFor()
  return page.evaluate(() => navigator.clipboard.readText())
}

const AXE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

/** Asserts that axe finds no serious violation of WCAG 2.2 AA on a page. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(AXE)
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(options: object): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>
      }
    }
    // Preloading copies style sheets of shadow roots into elements of style, which the page's policy refuses.
    const { violations } = await axe.run({ preload: false })
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
  })
  assert.deepEqual(found, [], page.url())
}
