import { after, before } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, type Place } from '../project.ts'
import { signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/** A Neap, and the console that its owner has opened. Its fields are there once the hooks of the file have run. */
export interface OpenedConsole {
  readonly neap: Neap
  /** The compute of the first project. */
  readonly place: Place
  readonly browser: Browser
  readonly visit: Visitor
}

/**
 * Declares hooks that start a Neap and open its console for all tests of a file.
 * @param prepare called before the console is opened
 */
export function openedConsole(prepare?: (neap: Neap, place: Place) => Promise<void>): OpenedConsole {
  const opened = {} as { -readonly [Name in keyof OpenedConsole]: OpenedConsole[Name] }
  let close = async (): Promise<void> => {}
  before(async () => {
    if (withoutBrowser) return
    const neap = await startNeap()
    close = () => neap.stop()
    const place = await firstPlace(neap)
    await prepare?.(neap, place)
    const browser = await startBrowser()
    close = async () => {
      await browser.close()
      await neap.stop()
    }
    Object.assign(opened, { neap, place, browser, visit: await signedIn(browser, neap) })
  })
  after(() => close())
  return opened
}
