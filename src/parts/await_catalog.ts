import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from '../catalog/sql.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'

const SHORTEST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000

/** Waits until the catalog answers, as long as it is unavailable. Errors: any but UNAVAILABLE. */
export async function awaitCatalog({ catalog, log }: Pick<Context, 'catalog' | 'log'>): Promise<void> {
  for (let pause = SHORTEST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      await catalog.row(sql`select 1`)
      return
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'UNAVAILABLE') throw error
      if (pause === SHORTEST_PAUSE_MS) log.warn({ err: error.cause }, 'the catalog is away: waiting for it')
    }
    await sleep(pause)
  }
}
