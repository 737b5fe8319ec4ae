import type { PooledStatement, Statements } from './statements.ts'

/**
 * The prepared statements of a client by the client's names. Changes are logged until `settle`, since their messages
 * may be sent again after the loss of a server connection.
 */
export interface StatementNames {
  get(name: string): PooledStatement | undefined
  has(name: string): boolean
  keys(): Iterable<string>
  /** Gives a name to an interned statement, which is released when the name no longer needs it. */
  set(name: string, statement: PooledStatement): void
  delete(name: string): void
  /** Makes the changes final. */
  settle(): void
  /** Undoes the changes since the last `settle`. */
  restart(): void
  /** Releases all statements. */
  close(): void
}

export function createStatementNames(statements: Statements): StatementNames {
  const names = new Map<string, PooledStatement>()
  /** The earlier statements of changed names. */
  const before: [name: string, statement: PooledStatement | undefined][] = []

  function settle(): void {
    if (before.length === 0) return
    for (const [, statement] of before.splice(0)) if (statement) statements.release(statement)
  }

  return {
    get: (name) => names.get(name),
    has: (name) => names.has(name),
    keys: () => names.keys(),
    set(name, statement) {
      before.push([name, names.get(name)])
      names.set(name, statement)
    },
    delete(name) {
      before.push([name, names.get(name)])
      names.delete(name)
    },
    settle,
    restart() {
      for (const [name, statement] of before.splice(0).toReversed()) {
        const now = names.get(name)
        if (now) statements.release(now)
        if (statement) names.set(name, statement)
        else names.delete(name)
      }
    },
    close() {
      settle()
      for (const statement of names.values()) statements.release(statement)
      names.clear()
    },
  }
}
