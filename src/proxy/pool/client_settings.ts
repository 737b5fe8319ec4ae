import { isTracked, keyOf, type Parameters, settingStatements } from './parameters.ts'
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

/** @param parameters the settings that the client chose when it connected */
export function createClientSettings(parameters: Parameters): ClientSettings {
  const chosen = [...parameters]
  /** Comparison key of the settings; undefined after a change. */
  let key: string | undefined
  let isDiscarded = false

  return {
    note(name, value) {
      if (!isTracked(name)) return
      parameters.set(name, value)
      key = undefined
    },
    applyTo(to) {
      key ??= keyOf(parameters)
      if (to.settings() === key) {
        if (to.mustReport()) to.run('')
        return
      }
      // Adopt values as the server writes them, so that equivalent values are not set again each time.
      const adopt = (): void => {
        for (const name of parameters.keys()) parameters.set(name, to.parameters().get(name) ?? '')
        key = undefined
      }
      const statements = settingStatements(parameters, to.parameters())
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
