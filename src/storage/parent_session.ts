import type pg from 'pg'
import { messageOf } from '../errors.ts'
import { SERVER_PORT } from '../host/layout.ts'
import { ADMIN, ownSession } from '../postgres/own_session.ts'

/**
 * Limit for the connection and each statement. The longest is a checkpoint, which code in a compute may freeze while
 * others wait.
 */
const STATEMENT_MS = 180_000

/** How to reach a parent's server. */
export interface RunningParent {
  readonly socketDir: string
  readonly passwords: readonly string[]
}

/** Opens a session at a parent, which keeps it awake. */
export const parentSession = ({ socketDir: host, passwords }: RunningParent): Promise<pg.Client> =>
  ownSession({ host, port: SERVER_PORT, user: ADMIN, passwords, name: 'neap: branch', timeoutMs: STATEMENT_MS })

/**
 * Socket errors, and SQLSTATE class 57: the server is shutting down, has crashed, or is not up yet. A server in its
 * first start does not have its own password yet (28P01).
 */
const LOST = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOENT', '57P01', '57P02', '57P03', '28P01'])

/** Whether a session at a parent ended because its server did, or is still starting. */
export function isSessionLost(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return LOST.has(code) || messageOf(error).startsWith('Connection terminated')
}

/** Writes to the WAL of a server, and returns the position behind it once all up to there is on disk. */
export async function endOfWal(client: pg.Client): Promise<{ lsn: string; file: string; subscribed: boolean }> {
  const { rows } = await client.query<{ lsn: string; file: string; subscribed: boolean }>(
    `select lsn::text, pg_walfile_name(lsn) as file, exists (select from pg_subscription) as subscribed
       from pg_logical_emit_message(true, 'neap', '') as lsn`,
  )
  const [end] = rows
  if (!end) throw new Error('the server answered no row')
  return end
}
