import { AppError } from '../errors.ts'
import { ownerOf } from '../network.ts'

/*
 * Rate limit of guessed passwords, by token buckets: a check takes a token of each bucket before it begins, and a right
 * password, or a check that fails, returns them. So the rate holds for any number of parallel requests.
 */

/** Wrong passwords from one network (an IPv4 address, a /64 of IPv6), for all persons. */
const OF_NETWORK = { burst: 30, perSecond: 1 / 10 }
/** Wrong passwords for one person from one network. */
const OF_PAIR = { burst: 10, perSecond: 1 / 30 }
/** Wrong passwords for one person from all networks that have not sent the right one lately. */
const OF_PERSON = { burst: 50, perSecond: 1 / 20 }
/** A network that sent a person's right password is not counted among the others for this time. */
const TRUST_MS = 24 * 3_600_000
/** Limit of the entries of each map; the oldest is dropped first. */
const MAX_ENTRIES = 20_000

/** Limits the rate of wrong passwords in this process. */
export interface GuessLimit {
  /**
   * Runs a check of a password when there are tokens for it.
   * @param name identifies the person, or the email that belongs to no person
   * @param check whether the password is right
   * Errors: RATE_LIMITED, and those of `check`.
   */
  check(address: string, name: string, check: () => Promise<boolean>): Promise<boolean>
}

/** @param now milliseconds of a clock that never steps back */
export function createGuessLimit(now = () => performance.now()): GuessLimit {
  const networks = createBuckets(OF_NETWORK, now)
  const pairs = createBuckets(OF_PAIR, now)
  const persons = createBuckets(OF_PERSON, now)
  const trusted = new Map<string, number>()

  return {
    async check(address, name, check) {
      const network = ownerOf(address)
      const pair = JSON.stringify([network, name])
      const isTrusted = (trusted.get(pair) ?? 0) > now()
      const returns = takeAll([
        () => networks.take(network),
        () => pairs.take(pair),
        ...(isTrusted ? [] : [() => persons.take(name)]),
      ])
      // A check that was not made tells a guesser nothing.
      let isWrong = false
      try {
        isWrong = !(await check())
      } finally {
        if (!isWrong) for (const giveBack of returns) giveBack()
      }
      if (isWrong) return false
      put(trusted, pair, now() + TRUST_MS)
      return true
    },
  }
}

/** Takes a token of each bucket, or of no bucket. Errors: RATE_LIMITED. */
function takeAll(takes: readonly (() => (() => void) | number)[]): (() => void)[] {
  const taken: (() => void)[] = []
  for (const take of takes) {
    const giveBack = take()
    if (typeof giveBack === 'function') {
      taken.push(giveBack)
      continue
    }
    for (const back of taken) back()
    throw new AppError('RATE_LIMITED', `Too many wrong passwords. Try again in ${giveBack} s, or sign in by a link.`)
  }
  return taken
}

function createBuckets({ burst, perSecond }: typeof OF_NETWORK, now: () => number) {
  const buckets = new Map<string, { tokens: number; refilledAt: number }>()

  function refilled(name: string) {
    const at = now()
    const { tokens, refilledAt } = buckets.get(name) ?? { tokens: burst, refilledAt: at }
    const bucket = { tokens: Math.min(burst, tokens + ((at - refilledAt) / 1_000) * perSecond), refilledAt: at }
    put(buckets, name, bucket)
    return bucket
  }

  return {
    /** Takes a token. Returns how to give it back, or the seconds until there is one. */
    take(name: string): (() => void) | number {
      const bucket = refilled(name)
      if (bucket.tokens < 1) return Math.ceil((1 - bucket.tokens) / perSecond)
      bucket.tokens--
      return () => {
        const later = refilled(name)
        later.tokens = Math.min(burst, later.tokens + 1)
      }
    },
  }
}

function put<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name)
  map.set(name, value)
  if (map.size <= MAX_ENTRIES) return
  const [oldest] = map.keys()
  if (oldest !== undefined) map.delete(oldest)
}
