/** SQLSTATEs of statements that waited too long, or for each other (Postgres manual, appendix A). */
const BUSY = new Set(['40P01', '55P03', '57014'])

/** Whether an error says that the catalog was too busy for a statement, which may succeed when tried again. */
export const isBusy = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && BUSY.has(String(error.code))
