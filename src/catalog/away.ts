import pg from 'pg'
import { AppError } from '../errors.ts'

/**
 * SQLSTATE classes and socket errors that mean that the catalog is unavailable, not that the statement is wrong. They
 * include the end of a session by an idle time-out, and a server that has become a standby.
 */
const AWAY =
  /^(08...|57P0[1235]|25P03|25006|53300|ECONN.*|ENOENT|EPIPE|EAGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND)$/
const TOO_MANY_CONNECTIONS = '53300'
/** The driver's messages without a code for a connection that is lost or cannot be opened. */
const LOST = /^Connection terminated|is not queryable$|timeout exceeded when trying to connect|^timeout expired$/

/** Whether an error means that the catalog is unavailable. */
export const isAway = (error: Error & { code?: string }): boolean =>
  error instanceof AppError ? error.code === 'UNAVAILABLE' : LOST.test(error.message) || AWAY.test(error.code ?? '')

/** Transient shortages of the catalog's machine (Postgres manual, appendix A, class 53), and how to resolve them. */
const SHORT: Readonly<Record<string, string>> = {
  '53100': 'The disk of the catalog is full: make room there. What exists can be read; nothing was changed.',
  '53200': 'The catalog has too little memory. Try again shortly.',
  '53300': 'The catalog has no free connections: raise its max_connections, or try again shortly.',
  '58030': 'The disk of the catalog fails: look at the log of its machine. Nothing was changed.',
}

/** Postgres reports it as a lack of privileges, and a catalog speaks English. */
const READ_ONLY = /: Read-only file system$/
const IS_READ_ONLY = 'The disk of the catalog is read-only: look at the log of its machine. Nothing was changed.'

/** Whether the catalog refused a statement because its disk is full. */
export const isDiskFull = (error: unknown): boolean =>
  error instanceof AppError && (error.cause as { code?: unknown } | undefined)?.code === '53100'

/** Throws UNAVAILABLE for errors that mean that the catalog is unavailable, and other errors unchanged. */
export function unavailable(error: Error & { code?: string }): never {
  const short = READ_ONLY.test(error.message) ? IS_READ_ONLY : SHORT[error.code ?? '']
  if (short) throw new AppError('UNAVAILABLE', short, { cause: error })
  if (isAway(error) && !(error instanceof AppError)) throw new AppError('UNAVAILABLE', undefined, { cause: error })
  throw error
}

const LET_IN_MS = 3_000

/** Whether the server accepts a new session, or rejects it with an error that does not mean that it is unavailable. */
export async function acceptsSessions(config: pg.ClientConfig): Promise<boolean> {
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
