import type pg from 'pg'
import type { ComputeAddress } from '../compute/compute.ts'
import { LOGIN_READER, ownSession, endSession } from '../postgres/own_session.ts'
import type { StoreSecrets } from '../secrets/stores.ts'

/** Reads the verifiers of a compute's roles, over a session that is kept for a while, since each login reads one. */
export interface VerifierReader {
  /**
   * The current verifier of a role (Postgres manual, pg_authid): null without a password, undefined if there is no such
   * role.
   * @param computeId the id of the compute: the session of another at the same address is not used
   * Errors: the driver's own, when the compute does not answer.
   */
  read(address: ComputeAddress, computeId: string, role: string): Promise<string | null | undefined>
  close(): void
}

const KEPT_MS = 10_000
const ANSWER_MS = 4_000

interface Kept {
  readonly session: Promise<pg.Client>
  timer: NodeJS.Timeout | undefined
}

export function createVerifierReader(secrets: Pick<StoreSecrets, 'loginReader'>): VerifierReader {
  const sessions = new Map<string, Kept>()

  function forget(name: string, kept: Kept): void {
    clearTimeout(kept.timer)
    if (sessions.get(name) === kept) sessions.delete(name)
    kept.session.then(
      (client) => void endSession(client),
      () => {},
    )
  }

  function sessionOf(name: string, { host, port, store }: ComputeAddress): Kept {
    const known = sessions.get(name)
    if (known) return known
    const session = ownSession({
      host,
      port,
      user: LOGIN_READER,
      passwords: secrets.loginReader(store),
      name: 'neap: login',
      timeoutMs: ANSWER_MS,
    })
    const kept: Kept = { session, timer: undefined }
    const over = (): void => forget(name, kept)
    session.then((client) => client.on('error', over).once('end', over), over)
    sessions.set(name, kept)
    return kept
  }

  return {
    async read(address, computeId, role) {
      const name = `${address.host} ${address.port} ${computeId}`
      const kept = sessionOf(name, address)
      clearTimeout(kept.timer)
      kept.timer = setTimeout(() => forget(name, kept), KEPT_MS).unref()
      try {
        const client = await kept.session
        const { rows } = await client.query<{ verifier: string | null }>({
          name: 'verifier',
          text: 'select left(rolpassword, 1024) as verifier from pg_authid where rolname = $1',
          values: [role],
        })
        return rows[0]?.verifier
      } catch (error) {
        forget(name, kept)
        throw error
      }
    },
    close() {
      for (const [name, kept] of sessions) forget(name, kept)
    },
  }
}
