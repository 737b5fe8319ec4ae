import { isTracked, keyOf, type Parameters, settingStatements } from './parameters.ts'
import type { PoolServer } from './server_interface.ts'

/** The settings that follow a client from server to server. */
export interface ClientSettings {
  /** Notes a value that a server reports while the client has it. */
  note(name: string, value: string): void
  /** Has a server that was just lent take the settings, ahead of what the client sends. */
  bring(to: PoolServer): void
  /** The client has sent DISCARD ALL: `restore` brings back what it chose when it connected. */
  discard(): void
  /** Answers the settings that the client has again after DISCARD ALL, of which its server knows nothing. */
  restore(): readonly (readonly [name: string, value: string])[]
}

/** @param parameters what the client chose when it connected */
export function createClientSettings(parameters: Parameters): ClientSettings {
  const chosen = [...parameters]
  /** What the settings come to; unknown after a change. */
  let key: string | undefined
  let isDiscarded = false

  return {
    note(name, value) {
      if (!isTracked(name)) return
      parameters.set(name, value)
      key = undefined
    },
    bring(to) {
      key ??= keyOf(parameters)
      if (to.settings() === key) {
        if (to.mustReport()) to.run('')
        return
      }
      // Values are taken as the server writes them: what means the same is not set again each time.
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
