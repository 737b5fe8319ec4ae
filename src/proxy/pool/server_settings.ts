import { keyOf, type Parameters } from './parameters.ts'

/**
 * The settings of a server that Postgres reports (Postgres manual, "Asynchronous Operations"). It does so with ReadyForQuery, if a value is
 * not the one that it reported last: so between a reset and the next ReadyForQuery they are known only as what the reset brings back.
 */
export interface ServerSettings {
  /** As they are, or will be behind a reset that is under way. */
  active(): Parameters
  /** Of those that follow a client, to be compared. */
  key(): string
  report(name: string, value: string): void
  /** A reset is about to be sent. */
  expectReset(): void
  /** Postgres will report changes that a reset made with its next ReadyForQuery. */
  mustReport(): boolean
  /** Postgres is ready for a query. @param isReset nothing was run but a reset */
  ready(isReset: boolean): void
}

/** @param initial what a fresh session reports */
export function createServerSettings(initial: Parameters): ServerSettings {
  const reported: Parameters = new Map(initial)
  let atReset = initial
  /** Names that are reported with another value than a reset brings back. */
  const altered = new Set<string>()
  let active: Parameters = new Map(initial)
  let key: string | undefined
  let isUnreported = false

  return {
    active: () => active,
    key: () => (key ??= keyOf(active)),
    report(name, value) {
      reported.set(name, value)
      if (atReset.get(name) === value) altered.delete(name)
      else altered.add(name)
      active.set(name, value)
      key = undefined
    },
    expectReset() {
      isUnreported = true
      if (altered.size === 0) return
      active = new Map(atReset)
      key = undefined
    },
    mustReport: () => isUnreported && altered.size > 0,
    ready(isReset) {
      if (isUnreported && altered.size > 0) {
        active = new Map(reported)
        key = undefined
      }
      isUnreported = false
      if (!isReset || altered.size === 0) return
      // The configuration was changed since the session began.
      atReset = new Map(reported)
      altered.clear()
    },
  }
}
