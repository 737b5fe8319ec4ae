import pg from 'pg'
import { AppError } from '../errors.ts'

/**
 * SQLSTATE classes and socket errors that mean "the catalog is away", as apart from "the statement is wrong": also that the
 * session was ended since it stood still, and that the server only follows another now.
 */
const AWAY =
  /^(08...|57P0[1235]|25P03|25006|53300|ECONN.*|ENOENT|EPIPE|EAGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND)$/
const TOO_MANY_CONNECTIONS = '53300'
/** What the driver says without a code when a connection is gone or cannot be had. */
const LOST = /^Connection terminated|is not queryable$|timeout exceeded when trying to connect|^timeout expired$/

/** Whether an error says that the catalog is away. */
export const isAway = (error: Error & { code?: string }): boolean =>
  error instanceof AppError ? error.code === 'UNAVAILABLE' : LOST.test(error.message) || AWAY.test(error.code ?? '')

/** What the catalog's own machine lacks (Postgres manual, appendix A, class 53), and what to do. It passes. */
const SHORT: Readonly<Record<string, string>> = {
  '53100': 'The disk of the catalog is full: make room there. What exists can be read; nothing was changed.',
  '53200': 'The catalog has too little memory. Try again shortly.',
}

/** Throws UNAVAILABLE for what says that the catalog is away, and anything else as it is. */
export function unavailable(error: Error & { code?: string }): never {
  const short = SHORT[error.code ?? '']
  if (short) throw new AppError('UNAVAILABLE', short, { cause: error })
  if (isAway(error) && !(error instanceof AppError)) throw new AppError('UNAVAILABLE', undefined, { cause: error })
  throw error
}

const LET_IN_MS = 3_000

/** Whether the server has a new session, or at least says why not. */
export async function letsIn(config: pg.ClientConfig): Promise<boolean> {
  const client = new pg.Client({ ...config, connectionTimeoutMillis: LET_IN_MS })
  client.on('error', () => {})
  try {
    await client.connect()
    void client.end().catch(() => {})
    return true
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) return false
    return error.code === TOO_MANY_CONNECTIONS || !AWAY.test(error.code ?? '')
  }
}
