import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Catalog } from '../catalog/catalog.ts'
import { findLogin, type RoleLogin } from '../catalog/login.ts'
import { messageOf } from '../errors.ts'
import { addressOf, type SessionAddress } from './compute.ts'
import { ProxyError } from './errors.ts'
import { pauseMs } from './reach.ts'
import { mockVerifier, parseVerifier, type Verifier } from './scram.ts'
import { createBuckets } from './buckets.ts'
import { createDecoy } from './decoy.ts'
import { told, type Waker } from './wake.ts'

/** Asks a compute for the verifier of a role. Errors: any, when it does not answer. */
export type ReadVerifier = (address: SessionAddress, pid: number, role: string) => Promise<string | null | undefined>

/** What somebody must show who wants to be let in. */
export interface Admission {
  /** One that no password fits where there is no such role or endpoint, or no password. */
  readonly verifier: Verifier
  /** Makes the verifier of the same name that no password fits. */
  readonly mock: () => Verifier
  /** What else there is to know of the endpoint, where there is one. */
  readonly login: RoleLogin | undefined
}

/** Errors: md5_password, start_failed; catalog_away and not_in_time when it takes for so long. */
export type FindAdmission = (endpointId: string, role: string) => Promise<Admission>

/** A compute, by its process too: another may be at the same address since. */
interface Place extends SessionAddress {
  readonly pid: number
}

function placeOf(login: RoleLogin): Place | undefined {
  const address = addressOf(login)
  return address && login.compute_pid !== null ? { ...address, pid: login.compute_pid } : undefined
}

/**
 * How often logins without a proof may have an endpoint woken, to ask it for the verifiers of its roles: so often at once, and then once in
 * so many seconds. Each proxy process counts by itself.
 */
const WAKES_TO_ASK = { burst: 10, perSecond: 1 / 30 }

/** Limit of endpoints with remembered computes. */
const MAX_PLACES = 10_000

/** Names that begin so are Neap's own roles in every compute: nobody logs in as one. */
const OWN_ROLES = /^neap_/

/**
 * Looks for the verifier of a role: at its compute while one runs, since users change roles by SQL; in the catalog while it sleeps, where it
 * went to sleep in good order. Otherwise it is woken to be asked, a few times; after that the catalog's last copy counts: a right proof for it
 * wakes the compute, which decides.
 */
export function createFindAdmission(
  catalog: Catalog,
  waker: Waker,
  read: ReadVerifier,
  wakeTimeoutMs: number,
  mockSaltKey: Buffer,
): FindAdmission {
  /** Where endpoints were when somebody last logged in. */
  const places = new Map<string, Place>()
  const wakesToAsk = createBuckets(WAKES_TO_ASK.burst, WAKES_TO_ASK.perSecond)
  const decoy = createDecoy(mockSaltKey)

  function remember(endpointId: string, place: Place | undefined): void {
    places.delete(endpointId)
    if (!place) return
    places.set(endpointId, place)
    const [oldest] = places.size > MAX_PLACES ? places.keys() : []
    if (oldest !== undefined) places.delete(oldest)
  }

  /** What the catalog says, when it is there. */
  async function loginOf(endpointId: string, role: string, until: number): Promise<RoleLogin | undefined> {
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

  /** What the catalog says in the end, with the verifier from where it is to be had. */
  async function findVerifier(endpointId: string, role: string, until: number): Promise<RoleLogin | undefined> {
    const begun = performance.now()
    const guess = places.get(endpointId)
    // Most likely it is there still, and the catalog need not be waited for to ask it.
    let guessed = guess && decoy.measure(endpointId, read(guess, guess.pid, role))
    // If it is not there, nobody may be waiting for this answer; who is hears of its failure.
    guessed?.catch(() => {})
    for (let turn = 1; ; turn++) {
      const login = await loginOf(endpointId, role, until)
      const place = login && placeOf(login)
      remember(endpointId, place)
      if (!login) {
        await decoy.wait(endpointId, begun)
        return undefined
      }
      if (login.disabled || (login.noted && login.current_state !== 'active')) return login
      let deadPid: number | undefined
      let why: unknown
      if (place) {
        const { pid } = place
        try {
          const answer =
            guessed && isDeepStrictEqual(guess, place) ? guessed : decoy.measure(endpointId, read(place, pid, role))
          guessed = undefined
          return { ...login, verifier: (await answer) ?? null }
        } catch (error) {
          why = error
          // One that is only slow is asked again.
          if (!/timeout/i.test(messageOf(error))) deadPid = pid
          if (turn > 1) await sleep(pauseMs(turn))
        }
      }
      if (performance.now() > until) throw new ProxyError('not_in_time', { cause: why })
      if ((!place || deadPid !== undefined) && !wakesToAsk.take(endpointId)) return login
      await waker.wake(endpointId, deadPid)
    }
  }

  return async (endpointId, role) => {
    const until = performance.now() + wakeTimeoutMs
    const login = OWN_ROLES.test(role) ? undefined : await findVerifier(endpointId, role, until)
    if (login?.verifier?.startsWith('md5')) throw new ProxyError('md5_password')
    const mock = (): Verifier => mockVerifier(mockSaltKey, `${endpointId} ${role}`)
    return { verifier: parseVerifier(login?.verifier ?? '') ?? mock(), mock, login }
  }
}
