import type { Db } from '../catalog/catalog.ts'
import { sql } from '../catalog/sql.ts'

/** More often than the catalog ends sessions that are silent within a transaction, as those of frozen processes are. */
const KEEP_ALIVE_MS = 5_000
/** A step that works for longer loses its session, and another attempt begins. */
const MAX_MS = 120_000

/** Runs a step's work and keeps the session of its transaction in use meanwhile. */
export async function keepAlive<T>(tx: Db, work: () => Promise<T>, everyMs = KEEP_ALIVE_MS): Promise<T> {
  const until = performance.now() + MAX_MS
  const timer = setInterval(() => {
    // A failure shows at the step's next statement.
    if (performance.now() < until) tx.rows(sql`select 1`).catch(() => undefined)
  }, everyMs)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}
