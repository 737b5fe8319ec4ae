import { type ComponentType, lazy, type LazyExoticComponent } from 'react'
import { untilReachable } from '../api.ts'

/** Attempts while the API answers: it may have come back between an attempt and the question whether it is there. */
const MAX_REFUSED = 2

/**
 * A component whose code is loaded when it is first shown. Code that an API which is away cannot serve is loaded once it
 * is back; React would keep the failure for as long as the console is open.
 */
export const lazyPage = <Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): LazyExoticComponent<ComponentType<Props>> => lazy(async () => ({ default: await loadUntilServed(load) }))

async function loadUntilServed<Page>(load: () => Promise<Page>): Promise<Page> {
  for (let refused = 0; ;) {
    try {
      return await load()
    } catch (cause) {
      if (!(await untilReachable()) && ++refused === MAX_REFUSED)
        throw new Error('Neap does not serve this page any more: it was updated. Reload the console.', { cause })
    }
  }
}
