/*
 * The prepared statements of a server. A batch that fails is skipped with the Parse messages in it, and batches that
 * the client sent ahead are on their way by then. So a Parse counts for its own batch at once, and for later ones when
 * it is answered; until then a later batch closes the statement and prepares it again.
 */
import type { Expected } from './expected.ts'
import { encodeClose, type PooledStatement } from './statements.ts'

export interface ServerStatements {
  /** In the order of use, the least recently used first. */
  readonly prepared: Set<PooledStatement>
  /** The batch of the last Parse of a statement whose answer is pending. */
  readonly parsing: Map<PooledStatement, number>
  /** Statements that the server may have or not. */
  readonly uncertain: Set<PooledStatement>
}

/** Limit of statements that one server keeps prepared; the least recently used is closed first. */
const MAX_STATEMENTS = 500

export const createServerStatements = (): ServerStatements => ({
  prepared: new Set(),
  parsing: new Map(),
  uncertain: new Set(),
})

/** Forgets all statements, as the server does at a reset. */
export function clearStatements({ prepared, parsing, uncertain }: ServerStatements): void {
  for (const each of [prepared, parsing, uncertain]) each.clear()
}

/** The messages that make a statement usable in a batch; none if it is. */
export interface Preparation {
  readonly bytes: readonly Buffer[]
  /** What the server answers to them, in their order. */
  readonly expected: readonly Expected[]
}

const PREPARED: Preparation = { bytes: [], expected: [] }

/**
 * Prepares a statement for use in a batch.
 * @param name the client's, if the client sent the Parse
 * @param evicts whether statements may be closed to make room: a server that skips messages would skip that as well
 */
export function prepareStatement(
  statements: ServerStatements,
  statement: PooledStatement,
  { name, batch, evicts }: { readonly name: string | undefined; readonly batch: number; readonly evicts: boolean },
): Preparation {
  const { prepared, parsing, uncertain } = statements
  const pending = parsing.get(statement) ?? batch
  if (touch(prepared, statement) && pending === batch) return PREPARED
  const bytes: Buffer[] = []
  const expected: Expected[] = []
  for (const oldest of evicts ? evict(statements) : []) {
    expected.push({ kind: 'close', hidden: true, statement: oldest })
    bytes.push(encodeClose(oldest))
  }
  if (pending !== batch) uncertain.add(statement)
  // To close a statement that does not exist is no error, to prepare one that exists is.
  if (uncertain.has(statement)) {
    expected.push({ kind: 'close', hidden: true })
    bytes.push(encodeClose(statement))
  }
  prepared.add(statement)
  parsing.set(statement, batch)
  expected.push(expectedParse(statements, statement, name, batch))
  return { bytes: [...bytes, statement.parse], expected }
}

function expectedParse(
  { prepared, parsing, uncertain }: ServerStatements,
  statement: PooledStatement,
  name: string | undefined,
  batch: number,
): Expected {
  const isLast = (): boolean => parsing.get(statement) === batch && parsing.delete(statement)
  return {
    kind: 'parse',
    statement,
    ...(name === undefined ? { hidden: true } : { name }),
    onDone() {
      if (!isLast()) return
      prepared.add(statement)
      uncertain.delete(statement)
    },
    onDropped: () => void isLast(),
  }
}

/** Marks a statement as the one used last. Returns false if it is not prepared. */
function touch(prepared: Set<PooledStatement>, statement: PooledStatement): boolean {
  if (!prepared.delete(statement)) return false
  prepared.add(statement)
  return true
}

/** Removes and returns those that must be closed before another one is prepared. */
function evict({ prepared, parsing }: ServerStatements): PooledStatement[] {
  const evicted: PooledStatement[] = []
  for (const oldest of prepared) {
    if (prepared.size < MAX_STATEMENTS) break
    prepared.delete(oldest)
    parsing.delete(oldest)
    evicted.push(oldest)
  }
  return evicted
}
