import type { Duplex } from 'node:stream'
import { ownerOf } from '../../network.ts'
import { ClientGone, ProxyError } from '../wire/errors.ts'

/*
 * Rate limit of password guesses. A proof is checked only with a token, and a wrong proof consumes it. So the rate
 * holds for any number of parallel connections, whether they wait for their answers or hang up: without a token no
 * client learns the result. A right proof returns its token.
 *
 * Wrong proofs are answered late once many tokens are consumed, so that right proofs find a token during an attack:
 * guessers that wait for the answer cannot retry before it, and guessers that hang up leave the queue.
 */

/** Wrong proofs for a role of an endpoint from one network (an IPv4 address, a /64 of IPv6). */
const OF_NETWORK = { burst: 100, perSecond: 4 }
/** Wrong proofs from all networks together, except networks that recently sent the right password. */
const OF_ROLE = { burst: 500, perSecond: 20 }
/** Delay of the answer to a wrong proof when no token is left; less with more tokens, 0 above 90% of the burst. */
const MAX_LATE_MS = 30_000
const LATE_BELOW = 0.9
/** A client still in the queue after this time is refused. */
const MAX_WAIT_MS = 15_000
/** Limit of the entries of each map: networks, roles, trusted networks. The oldest entry is dropped first. */
const MAX_BUCKETS = 20_000
const TRUST_MS = 24 * 3_600_000

/** A login: its address, endpoint and role. */
export interface Attempt {
  readonly address: string | undefined
  readonly endpointId: string
  readonly role: string
}

/** Limits the rate of wrong passwords in this process. */
export interface Attempts {
  /**
   * Checks a proof when a token is free, which is at once unless many proofs were wrong.
   * @param isRight returns whether the result of `check` means a right proof
   * Errors: too_many_attempts after 15 seconds, ClientGone, and those of `check`.
   */
  readonly check: <T>(
    client: Duplex,
    attempt: Attempt,
    check: () => T | Promise<T>,
    isRight: (answer: T) => boolean,
  ) => Promise<T>
}

export function createAttempts(now = () => performance.now()): Attempts {
  const ofNetworks = createQueuedBuckets(OF_NETWORK, now)
  const ofRoles = createQueuedBuckets(OF_ROLE, now)
  /** Networks that sent a role's right password, with the expiry of that trust. */
  const trusted = new Map<string, number>()

  function trust(name: string): void {
    trusted.delete(name)
    trusted.set(name, now() + TRUST_MS)
    if (trusted.size <= MAX_BUCKETS) return
    const [oldest] = trusted.keys()
    if (oldest !== undefined) trusted.delete(oldest)
  }

  return {
    async check(client, { address, endpointId, role }, check, isRight) {
      const roleName = JSON.stringify([endpointId, role])
      const name = JSON.stringify([ownerOf(address), roleName])
      const leaveNetwork = await ofNetworks.enter(name, client)
      let leaveRole = (_wasWrong: boolean): number => 0
      let wasWrong = false
      let lateMs = 0
      try {
        if ((trusted.get(name) ?? 0) <= now()) leaveRole = await ofRoles.enter(roleName, client)
        const answer = await check()
        wasWrong = !isRight(answer)
        if (!wasWrong) trust(name)
        return answer
      } finally {
        lateMs = Math.max(leaveRole(wasWrong), leaveNetwork(wasWrong))
        if (wasWrong && lateMs > 0) await delay(client, lateMs)
      }
    },
  }
}

interface QueuedBucket {
  tokens: number
  /** Proofs being checked. Their tokens may be returned. */
  checking: number
  refilledAt: number
  /** Oldest first. */
  readonly waiting: Set<() => void>
  timer: NodeJS.Timeout | undefined
}

/** Resolves after `ms` milliseconds, or when the client disconnects. */
function delay(client: Duplex, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer)
      client.off('close', over)
      resolve()
    }
    const timer = setTimeout(over, ms)
    client.once('close', over)
    if (client.destroyed) over()
  })
}

/** Token buckets by name, each with a queue. */
function createQueuedBuckets({ burst, perSecond }: typeof OF_NETWORK, now: () => number) {
  const buckets = new Map<string, QueuedBucket>()

  function find(name: string): QueuedBucket {
    const bucket = buckets.get(name) ?? {
      tokens: burst,
      checking: 0,
      refilledAt: now(),
      waiting: new Set<() => void>(),
      timer: undefined,
    }
    buckets.delete(name)
    buckets.set(name, bucket)
    const [oldest] = buckets.size > MAX_BUCKETS ? buckets.keys() : []
    if (oldest !== undefined) buckets.delete(oldest)
    return bucket
  }

  function refill(bucket: QueuedBucket): void {
    const at = now()
    bucket.tokens = Math.min(burst, bucket.tokens + ((at - bucket.refilledAt) / 1_000) * perSecond)
    bucket.refilledAt = at
  }

  /** Admits waiting clients while tokens last, and sets a timer for the next token. */
  function admitWaiting(bucket: QueuedBucket): void {
    refill(bucket)
    for (const next of bucket.waiting) {
      if (bucket.tokens < 1) break
      bucket.waiting.delete(next)
      bucket.tokens--
      next()
    }
    if (bucket.waiting.size === 0 || bucket.timer) return
    const ms = ((1 - bucket.tokens) / perSecond) * 1_000 + 1
    bucket.timer = setTimeout(() => {
      bucket.timer = undefined
      admitWaiting(bucket)
    }, ms)
  }

  function wait(bucket: QueuedBucket, client: Duplex): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (): void => {
        clearTimeout(timer)
        client.off('close', gone)
      }
      const admitted = (): void => {
        over()
        resolve()
      }
      const giveUp = (error: Error): void => {
        over()
        bucket.waiting.delete(admitted)
        reject(error)
      }
      const gone = (): void => giveUp(new ClientGone('closed before its password was checked'))
      const timer = setTimeout(() => giveUp(new ProxyError('too_many_attempts')), MAX_WAIT_MS)
      client.once('close', gone)
      bucket.waiting.add(admitted)
      admitWaiting(bucket)
    })
  }

  return {
    /**
     * Resolves when a token is taken. The returned function ends the check: it returns the token unless the proof was
     * wrong, and returns the delay of the client's answer in milliseconds. Errors: as `check`.
     */
    async enter(name: string, client: Duplex): Promise<(wasWrong: boolean) => number> {
      const bucket = find(name)
      refill(bucket)
      if (bucket.tokens >= 1 && bucket.waiting.size === 0) bucket.tokens--
      else await wait(bucket, client)
      bucket.checking++
      return (wasWrong) => {
        bucket.checking--
        refill(bucket)
        if (!wasWrong) bucket.tokens = Math.min(burst, bucket.tokens + 1)
        const lateMs = MAX_LATE_MS * Math.max(0, 1 - (bucket.tokens + bucket.checking) / (LATE_BELOW * burst))
        admitWaiting(bucket)
        if (bucket.tokens >= burst && buckets.get(name) === bucket) buckets.delete(name)
        return lateMs
      }
    },
  }
}
