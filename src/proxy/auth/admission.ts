import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Catalog } from '../../catalog/catalog.ts'
import { findLogin, type RoleLogin } from '../../catalog/login.ts'
import { messageOf } from '../../errors.ts'
import { createTokenBuckets } from '../accept/token_buckets.ts'
import type { ComputeLocation } from '../../catalog/compute.ts'
import { addressOf } from '../connect/compute.ts'
import { retryMs } from '../connect/reach.ts'
import { rethrowAsProxyError, type Waker } from '../connect/wake.ts'
import { ProxyError } from '../wire/errors.ts'
import { createDecoy } from './decoy.ts'
import { isOwnRole } from './own_role.ts'
import { mockVerifier, parseVerifier, type Verifier } from './verifier.ts'

/** Reads the verifier of a role from a compute. Errors: any, when the compute does not answer. */
export type ReadVerifier = (
  address: ComputeLocation,
  computeId: string,
  role: string,
) => Promise<string | null | undefined>

/** The verifier that a client must match, and the catalog's data on its endpoint. */
export interface Admission {
  /** A mock verifier that no password fits when the role, the endpoint or the password does not exist. */
  readonly verifier: Verifier
  /** Returns a mock verifier for the same endpoint and role. */
  readonly mock: () => Verifier
  /** The endpoint's data in the catalog. undefined when the endpoint does not exist or the role is reserved. */
  readonly login: RoleLogin | undefined
}

/** Errors: md5_password, start_failed; catalog_away and not_in_time (after the time-out). */
export type FindAdmission = (endpointId: string, role: string) => Promise<Admission>

/** The address and id of a compute. The id tells it from a later compute at the same address. */
interface Place extends ComputeLocation {
  readonly id: string
}

function placeOf(login: RoleLogin): Place | undefined {
  const address = addressOf(login)
  return address && login.compute_id !== null ? { ...address, id: login.compute_id } : undefined
}

/**
 * Limit of wakes per endpoint to read verifiers for logins without a proof: a burst, then a rate. Each proxy process
 * counts by itself.
 */
const WAKES_TO_ASK = { burst: 10, perSecond: 1 / 30 }

/** Limit of endpoints with remembered computes. */
const MAX_PLACES = 10_000

/**
 * Looks up the verifier of a role. Reads it from the compute while one runs, since users change roles by SQL. Reads it
 * from the catalog while the endpoint is idle and its last compute stored its roles when it stopped. Otherwise wakes
 * the compute to read it, up to a limit. Beyond the limit the catalog's last copy counts: a right proof for it wakes
 * the compute, which decides.
 */
export function createFindAdmission(
  catalog: Catalog,
  waker: Waker,
  read: ReadVerifier,
  wakeTimeoutMs: number,
  mockSaltKey: Buffer,
): FindAdmission {
  /** Computes of endpoints at their last login. */
  const places = new Map<string, Place>()
  const wakesToAsk = createTokenBuckets(WAKES_TO_ASK.burst, WAKES_TO_ASK.perSecond)
  const decoy = createDecoy(mockSaltKey)

  function remember(endpointId: string, place: Place | undefined): void {
    places.delete(endpointId)
    if (!place) return
    places.set(endpointId, place)
    const [oldest] = places.size > MAX_PLACES ? places.keys() : []
    if (oldest !== undefined) places.delete(oldest)
  }

  /** Reads the login from the catalog. Retries while the catalog is unavailable. */
  async function loginOf(endpointId: string, role: string, until: number): Promise<RoleLogin | undefined> {
    for (let turn = 2; ; turn++) {
      try {
        return await findLogin(catalog, endpointId, role).catch(rethrowAsProxyError)
      } catch (error) {
        const away = error instanceof ProxyError && error.reason === 'catalog_away'
        if (!away || performance.now() + retryMs(turn) > until) throw error
        await sleep(retryMs(turn))
      }
    }
  }

  /** Reads the login from the catalog, with the verifier from the compute or the catalog. */
  async function findVerifier(endpointId: string, role: string, until: number): Promise<RoleLogin | undefined> {
    const begun = performance.now()
    const guess = places.get(endpointId)
    // The compute is most likely still there: read the verifier in parallel with the catalog lookup.
    let guessed = guess && decoy.measure(endpointId, read(guess, guess.id, role))
    // A wrong guess is never awaited: its rejection must not be unhandled.
    guessed?.catch(() => {})
    for (let turn = 1; ; turn++) {
      const login = await loginOf(endpointId, role, until)
      const place = login && placeOf(login)
      remember(endpointId, place)
      if (!login) {
        await decoy.wait(endpointId, begun)
        return undefined
      }
      if (login.disabled || login.is_closed || (login.noted && login.current_state !== 'active')) return login
      let deadComputeId: string | undefined
      let why: unknown
      if (place) {
        const { id } = place
        try {
          const answer =
            guessed && isDeepStrictEqual(guess, place) ? guessed : decoy.measure(endpointId, read(place, id, role))
          guessed = undefined
          return { ...login, verifier: (await answer) ?? null }
        } catch (error) {
          why = error
          // A timeout does not mean that the compute is dead: read from it again.
          if (!/timeout/i.test(messageOf(error))) deadComputeId = id
          if (turn > 1) await sleep(retryMs(turn))
        }
      }
      if (performance.now() > until) throw new ProxyError('not_in_time', { cause: why })
      if ((!place || deadComputeId !== undefined) && !wakesToAsk.take(endpointId)) return login
      await waker.wake({ id: endpointId, project_id: login.project_id }, deadComputeId)
    }
  }

  return async (endpointId, role) => {
    const until = performance.now() + wakeTimeoutMs
    const login = isOwnRole(role) ? undefined : await findVerifier(endpointId, role, until)
    if (login?.verifier?.startsWith('md5')) throw new ProxyError('md5_password')
    const mock = (): Verifier => mockVerifier(mockSaltKey, `${endpointId} ${role}`)
    return { verifier: parseVerifier(login?.verifier ?? '') ?? mock(), mock, login }
  }
}
