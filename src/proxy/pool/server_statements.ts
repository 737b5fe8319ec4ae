import type { PooledStatement } from './statements.ts'

/** The statements that a server has prepared. A Set keeps the order of insertion: the least recently used is first. */
export type ServerStatements = Set<PooledStatement>

/** Limit of statements that one server keeps prepared; the least recently used is closed first. */
const MAX_STATEMENTS = 500

/** Marks a statement as the one used last. Returns false if it is not prepared. */
export function touch(prepared: ServerStatements, statement: PooledStatement): boolean {
  if (!prepared.delete(statement)) return false
  prepared.add(statement)
  return true
}

/** Removes and returns those that must be closed before another one is prepared. */
export function evict(prepared: ServerStatements): readonly PooledStatement[] {
  if (prepared.size < MAX_STATEMENTS) return NONE
  const evicted: PooledStatement[] = []
  for (const oldest of prepared) {
    if (prepared.size < MAX_STATEMENTS) break
    prepared.delete(oldest)
    evicted.push(oldest)
  }
  return evicted
}

const NONE: readonly PooledStatement[] = []
