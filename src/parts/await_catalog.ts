import { setTimeout as sleep } from 'node:timers/promises'
import { type Backoff, backoffMs } from '../backoff.ts'
import { sql } from '../catalog/sql.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'

const RETRY: Backoff = { firstMs: 100, maxMs: 1_000 }

/** Waits until the catalog answers, as long as it is unavailable. Errors: any but UNAVAILABLE. */
export async function awaitCatalog({ catalog, log }: Pick<Context, 'catalog' | 'log'>): Promise<void> {
  for (let failures = 1; ; failures++) {
    try {
      await catalog.row(sql`select 1`)
      return
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'UNAVAILABLE') throw error
      if (failures === 1) log.warn({ err: error.cause }, 'the catalog is away: waiting for it')
    }
    await sleep(backoffMs(failures, RETRY))
  }
}
