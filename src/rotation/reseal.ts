import type { Db } from '../catalog/catalog.ts'
import { SEALED_COLUMNS, type SealedColumn, type SealedRow } from '../catalog/sealed_rows.ts'
import { passwordContext, replyContext, webhookSecretContext } from '../secrets/contexts.ts'
import type { Secrets } from '../secrets/secrets.ts'

const PAGE = 500

/** Sealed texts of the catalog. */
export interface SealedCounts {
  /** Sealed under the current key. */
  current: number
  /** Sealed under an earlier key, which can still be read. */
  earlier: number
  /** Sealed under a key that is lost, or damaged. */
  unreadable: number
}

/** Reseals all texts of the catalog that are not under the current key. Resumes when repeated after a kill. */
export function resealAll(db: Db, secrets: Secrets): Promise<SealedCounts> {
  return visitAll(db, secrets, async (column, row, text) => {
    await column.replace(db, row, secrets.encrypt(column.what, text, contextOf(column, row)))
  })
}

/** The number of sealed texts, by their keys. */
export const countSealed = (db: Db, secrets: Secrets): Promise<SealedCounts> => visitAll(db, secrets, async () => {})

type Visit = (column: SealedColumn, row: SealedRow, text: string) => Promise<void>

async function visitAll(db: Db, secrets: Secrets, visit: Visit): Promise<SealedCounts> {
  const counts = { current: 0, earlier: 0, unreadable: 0 }
  for (const column of SEALED_COLUMNS)
    for await (const row of rowsOf(db, column)) counts[await visitRow(column, row, secrets, visit)]++
  return counts
}

async function* rowsOf(db: Db, column: SealedColumn): AsyncGenerator<SealedRow> {
  let after: readonly string[] | undefined
  for (;;) {
    const rows = await column.page(db, after, PAGE)
    yield* rows
    if (rows.length < PAGE) return
    after = rows.at(-1)?.at
  }
}

async function visitRow(
  column: SealedColumn,
  row: SealedRow,
  secrets: Secrets,
  visit: Visit,
): Promise<keyof SealedCounts> {
  const text = openRow(column, row, secrets)
  if (text === undefined) return 'unreadable'
  if (secrets.isCurrent(row.sealed)) return 'current'
  await visit(column, row, text)
  return 'earlier'
}

/** Returns undefined when its key is lost or it is damaged: one row must not keep all others under an old key. */
function openRow(column: SealedColumn, row: SealedRow, secrets: Secrets): string | undefined {
  try {
    return secrets.decrypt(column.what, row.sealed, contextOf(column, row))
  } catch {
    return undefined
  }
}

const CONTEXTS: Record<SealedColumn['what'], (at: readonly string[]) => string> = {
  password: ([, role = '']) => passwordContext(role),
  webhook: ([id = '']) => webhookSecretContext(id),
  reply: ([accountId = '', method = '', path = '', key = '']) => replyContext({ accountId, method, path, key }),
}

const contextOf = ({ what }: SealedColumn, { at }: SealedRow): string => CONTEXTS[what](at)
