import { AppError } from '../errors.ts'
import { ownerOf } from '../network.ts'
import { argon2Hash, matchesArgon2Hash, NO_PASSWORD_HASH } from '../secrets/argon2.ts'
import { createGuessLimit } from './guess_limit.ts'

/** Derivations that may wait; each takes some 40 ms. */
const MAX_WAITING = 100
/** Of them, those of one network: its people can neither fill the queue nor make others wait for long. */
const MAX_WAITING_OF_NETWORK = 10

/** Checks and hashes passwords, one at a time: derivations leave the other threads and cores to other requests. */
export interface PasswordChecks {
  /**
   * Whether a password is that of the hash. Without a hash it is not, and finding out takes as long.
   * @param name identifies the person for the limit of guesses
   * Errors: RATE_LIMITED, also when too many wait.
   */
  matches(guess: { readonly address: string; readonly name: string }, password: string, hash?: string): Promise<boolean>
  /** The hash of a new password, asked for from this address. Errors: RATE_LIMITED. */
  hash(address: string, password: string): Promise<string>
}

export function createPasswordChecks(): PasswordChecks {
  const guesses = createGuessLimit()
  const inTurn = createTurns()
  return {
    matches: ({ address, name }, password, hash) =>
      guesses.check(address, name, async () => {
        const matches = await inTurn(ownerOf(address), () => matchesArgon2Hash(password, hash ?? NO_PASSWORD_HASH))
        return matches && hash !== undefined
      }),
    hash: (address, password) => inTurn(ownerOf(address), () => argon2Hash(password)),
  }
}

/** Runs its tasks one after the other. Errors: RATE_LIMITED when too many wait, of all or of the network. */
function createTurns(): <T>(network: string, run: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  const waiting: string[] = []
  return async (network, run) => {
    const ofNetwork = waiting.filter((each) => each === network).length
    if (waiting.length >= MAX_WAITING || ofNetwork >= MAX_WAITING_OF_NETWORK)
      throw new AppError('RATE_LIMITED', 'Too many people sign in at this moment. Try again in a few seconds.')
    waiting.push(network)
    const mine = last.then(run).finally(() => waiting.splice(waiting.indexOf(network), 1))
    last = mine.catch(() => undefined)
    return mine
  }
}
