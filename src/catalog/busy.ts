/** SQLSTATEs of deadlocks, lock time-outs and cancelled statements (Postgres manual, appendix A). */
const BUSY = new Set(['40P01', '55P03', '57014'])

/** Whether the catalog was too busy for a statement, which may succeed on a retry. */
export const isBusy = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && BUSY.has(String(error.code))
