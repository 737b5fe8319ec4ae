import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from '../catalog/catalog.ts'
import { findLogin, type Login } from '../catalog/login.ts'
import type { ComputeAddress } from './compute.ts'
import { ProxyError } from './errors.ts'
import { pauseMs } from './reach.ts'
import { parseVerifier, type Verifier } from './scram.ts'
import { told, type Waker } from './wake.ts'

/** Asks a compute for the verifier of a role. Errors: any, when it does not answer. */
export type ReadVerifier = (address: ComputeAddress, pid: number, role: string) => Promise<string | null | undefined>

/** Names that begin so are Neap's own roles in every compute: nobody logs in as one. */
const OWN_ROLES = /^neap_/

/** A compute that turns out to be gone is started, and another that is gone too. */
const TRIES = 3

/**
 * The verifier of a role at an endpoint: from its compute while one runs, since users change roles by SQL; from the catalog while it
 * sleeps, where it went to sleep in good order. Otherwise it is woken to be asked. Nothing where there is no such role or endpoint, or no
 * password. Errors: md5_password, start_failed, not_in_time; catalog_away when it is for so long.
 */
export function createVerifiers(catalog: Catalog, waker: Waker, read: ReadVerifier, wakeTimeoutMs: number) {
  /** What the catalog says, when it is there. */
  async function loginOf(endpointId: string, role: string): Promise<Login | undefined> {
    const until = performance.now() + wakeTimeoutMs
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

  async function textOf(endpointId: string, role: string): Promise<string | null | undefined> {
    for (let turn = 1; ; turn++) {
      const login = await loginOf(endpointId, role)
      if (!login || OWN_ROLES.test(role)) return undefined
      const { current_state, compute_host: host, compute_port: port, compute_pid: pid } = login
      if (login.disabled || (login.noted && current_state !== 'active')) return login.verifier
      if (current_state !== 'active' || host === null || port === null || pid === null) {
        await waker.wake(endpointId, undefined)
        continue
      }
      try {
        return await read({ host, port }, pid, role)
      } catch (error) {
        if (turn === TRIES) throw new ProxyError('start_failed', { cause: error })
        await waker.wake(endpointId, pid)
      }
    }
  }

  return async (endpointId: string, role: string): Promise<Verifier | undefined> => {
    const text = await textOf(endpointId, role)
    if (text?.startsWith('md5')) throw new ProxyError('md5_password')
    return parseVerifier(text ?? '')
  }
}

export type Verifiers = ReturnType<typeof createVerifiers>
