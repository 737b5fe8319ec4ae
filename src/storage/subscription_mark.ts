import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The file of pg_subscription (pg_subscription.h), empty while there is none; a VACUUM FULL, for example, moves it. */
const SUBSCRIPTIONS = 'global/6100'

/** Whether a data directory that was shut down cleanly may hold subscriptions. */
export function mayHoldSubscriptions(pgdata: string): boolean {
  return statSync(join(pgdata, SUBSCRIPTIONS), { throwIfNoEntry: false })?.size !== 0
}

/** In a branch's directory: its subscriptions are still its parent's, and would consume from the parent's slot. */
const mark = (home: string): string => join(home, 'subscribed')

export const isMarkedSubscribed = (home: string): boolean => existsSync(mark(home))

export const markSubscribed = (home: string): void => writeFileSync(mark(home), '')

export const unmarkSubscribed = (home: string): void => rmSync(mark(home), { force: true })
