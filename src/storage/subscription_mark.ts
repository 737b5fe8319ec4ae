import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** In a store's directory: its subscriptions are still its parent's, and would consume from the parent's slot. */
const mark = (home: string): string => join(home, 'subscribed')

export const isMarkedSubscribed = (home: string): boolean => existsSync(mark(home))

export const markSubscribed = (home: string): void => writeFileSync(mark(home), '')

export const unmarkSubscribed = (home: string): void => rmSync(mark(home), { force: true })
