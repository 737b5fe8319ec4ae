import { CONFIGURED, isTracked, keyOf, type Parameters, settingStatements } from './parameters.ts'
import type { PoolServer } from './server_interface.ts'

/** The settings that follow a client from one server connection to the next. */
export interface ClientSettings {
  /** Records a value that a server reports while it is lent to the client. */
  note(name: string, value: string): void
  /** Applies the settings to a server connection that was just lent, ahead of the client's bytes. */
  applyTo(to: PoolServer): void
  /** The client has sent DISCARD ALL: `restore` brings back the settings that the client chose when it connected. */
  discard(): void
  /**
   * After DISCARD ALL, restores the settings that the client chose when it connected. Returns those that changed, which
   * the server does not report.
   */
  restore(): readonly (readonly [name: string, value: string])[]
}

/**
 * @param parameters the settings that the client chose when it connected
 * @param configured the value of CONFIGURED by the compute's configuration
 */
export function createClientSettings(parameters: Parameters, configured: () => string): ClientSettings {
  const chosen = [...parameters]
  /** Comparison key of the settings; undefined after a change. */
  let key: string | undefined
  /** The configured value for which that key is. */
  let keyConfigured: string | undefined
  let isDiscarded = false

  /** The key of the settings that a server is to have. */
  function keyNow(): string {
    const value = configured()
    if (value !== keyConfigured) key = undefined
    keyConfigured = value
    return (key ??= keyOf(parameters.has(CONFIGURED) ? parameters : new Map([...parameters, [CONFIGURED, value]])))
  }

  function statementsFor(has: Parameters): string[] {
    const statements = settingStatements(parameters, has)
    // Another client has chosen its value there.
    if (!parameters.has(CONFIGURED) && has.has(CONFIGURED) && has.get(CONFIGURED) !== configured())
      statements.push(`SET ${CONFIGURED} TO DEFAULT`)
    return statements
  }

  return {
    note(name, value) {
      if (!isTracked(name)) return
      // A reload of the configuration is no choice of the client.
      if (name === CONFIGURED && value === configured()) parameters.delete(name)
      else parameters.set(name, value)
      key = undefined
    },
    applyTo(to) {
      const statements = to.settings() === keyNow() ? [] : statementsFor(to.parameters())
      if (statements.length === 0) {
        if (to.mustReport()) to.run('')
        return
      }
      // Adopt values as the server writes them, so that equivalent values are not set again each time.
      const adopt = (): void => {
        for (const name of parameters.keys()) parameters.set(name, to.parameters().get(name) ?? '')
        key = undefined
      }
      for (const [index, statement] of statements.entries())
        to.run(statement, index === statements.length - 1 ? adopt : undefined)
    },
    discard() {
      isDiscarded = true
    },
    restore() {
      if (!isDiscarded) return []
      isDiscarded = false
      const changed = chosen.filter(([name, value]) => parameters.get(name) !== value)
      for (const [name, value] of changed) parameters.set(name, value)
      key = undefined
      return changed
    },
  }
}
