import { messageOf } from '../errors.ts'

/** How to reach a parent's server. */
export interface RunningParent {
  readonly socketDir: string
  readonly passwords: readonly string[]
}

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
