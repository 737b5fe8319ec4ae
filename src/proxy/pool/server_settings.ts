import { keyOf, type Parameters } from './parameters.ts'

/**
 * The settings of a server that Postgres reports (Postgres manual, "Asynchronous Operations"). Postgres reports a value
 * with ReadyForQuery if it differs from the value reported last. Between a reset and the next ReadyForQuery, the
 * settings are therefore known only as those that the reset restores.
 */
export interface ServerSettings {
  /** The current settings, or those after a reset that is under way. */
  active(): Parameters
  /** Comparison key of the settings that follow a client. */
  key(): string
  /** Returns false if the server reports more than a Postgres does. */
  report(name: string, value: string): boolean
  /** A reset is about to be sent. */
  expectReset(): void
  /** Postgres will report changes that a reset made with its next ReadyForQuery. */
  mustReport(): boolean
  /** Postgres is ready for a query. @param isReset only a reset was run */
  ready(isReset: boolean): void
}

/** Limit of characters of all names and values. Postgres reports some twenty. */
const MAX_CHARACTERS = 65_536

/** @param initial the settings that a new session reports */
export function createServerSettings(initial: Parameters): ServerSettings {
  const reported: Parameters = new Map(initial)
  let atReset = initial
  /** Names whose reported value differs from the one that a reset restores. */
  const altered = new Set<string>()
  let active: Parameters = new Map(initial)
  let key: string | undefined
  let isUnreported = false
  let characters = [...initial].flat().join('').length

  return {
    active: () => active,
    key: () => (key ??= keyOf(active)),
    report(name, value) {
      const before = reported.get(name)
      characters += before === undefined ? name.length + value.length : value.length - before.length
      if (characters > MAX_CHARACTERS) return false
      reported.set(name, value)
      if (atReset.get(name) === value) altered.delete(name)
      else altered.add(name)
      active.set(name, value)
      key = undefined
      return true
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
