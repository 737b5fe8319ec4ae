import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from '../catalog/catalog.ts'
import { findLogin, type Login } from '../catalog/login.ts'
import { messageOf } from '../errors.ts'
import type { ComputeAddress } from './compute.ts'
import { ProxyError } from './errors.ts'
import { pauseMs } from './reach.ts'
import { parseVerifier, type Verifier } from './scram.ts'
import { told, type Waker } from './wake.ts'

/** Asks a compute for the verifier of a role. Errors: any, when it does not answer. */
export type ReadVerifier = (address: ComputeAddress, pid: number, role: string) => Promise<string | null | undefined>

/** What somebody must show who wants to be let in. */
export interface Admission {
  /** Nothing where there is no such role or endpoint, or no password. */
  readonly verifier: Verifier | undefined
  /** Where one must come from; from anywhere if it is empty. */
  readonly allowedIps: readonly string[]
}

/** Errors: md5_password, start_failed; catalog_away and not_in_time when it takes for so long. */
export type FindAdmission = (endpointId: string, role: string) => Promise<Admission>

/** Names that begin so are Neap's own roles in every compute: nobody logs in as one. */
const OWN_ROLES = /^neap_/

/**
 * Looks for the verifier of a role: at its compute while one runs, since users change roles by SQL; in the catalog while it sleeps, where it
 * went to sleep in good order. Otherwise it is woken to be asked.
 */
export function createFindAdmission(
  catalog: Catalog,
  waker: Waker,
  read: ReadVerifier,
  wakeTimeoutMs: number,
): FindAdmission {
  /** What the catalog says, when it is there. */
  async function loginOf(endpointId: string, role: string, until: number): Promise<Login | undefined> {
    for (let turn = 2; ; turn++) {
      try {
        return await findLogin(catalog, endpointId, role).catch(told)
      } catch (error) {
        const away = error instanceof ProxyError && error.reason === 'catalog_away'
        if (!away || performance.now() + pauseMs(turn) > until) throw error
        await sleep(pauseMs(turn))
      }
    }
  }

  async function textOf(endpointId: string, role: string, login: Login, until: number) {
    let now: Login | undefined = login
    for (let turn = 1; now; turn++) {
      const { disabled, noted, current_state, compute_host: host, compute_port: port, compute_pid: pid }: Login = now
      if (disabled || (noted && current_state !== 'active')) return now.verifier
      let deadPid: number | undefined
      if (current_state === 'active' && host !== null && port !== null && pid !== null) {
        try {
          return await read({ host, port }, pid, role)
        } catch (error) {
          if (performance.now() > until) throw new ProxyError('not_in_time', { cause: error })
          // One that is only slow is asked again.
          if (!/timeout/i.test(messageOf(error))) deadPid = pid
          if (turn > 1) await sleep(pauseMs(turn))
        }
      }
      await waker.wake(endpointId, deadPid)
      now = await loginOf(endpointId, role, until)
    }
    return undefined
  }

  return async (endpointId, role) => {
    const until = performance.now() + wakeTimeoutMs
    const login = OWN_ROLES.test(role) ? undefined : await loginOf(endpointId, role, until)
    const text = login && (await textOf(endpointId, role, login, until))
    if (text?.startsWith('md5')) throw new ProxyError('md5_password')
    return { verifier: parseVerifier(text ?? ''), allowedIps: login?.allowed_ips ?? [] }
  }
}
