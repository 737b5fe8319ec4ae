import { argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'

/** Argon2id by the first choice of OWASP's Password Storage Cheat Sheet: 19 MiB, two passes, one lane. */
const MEMORY_KIB = 19_456
const PASSES = 2
const LANES = 1
const SALT_BYTES = 16
const TAG_BYTES = 32
/** Version 1.3 (RFC 9106, section 3.1). */
const VERSION = 19

interface Parameters {
  readonly memory: number
  readonly passes: number
  readonly parallelism: number
  readonly nonce: Buffer
  readonly tagLength: number
}

const compute = promisify(argon2)

const derive = (password: string, parameters: Parameters): Promise<Buffer> =>
  // The same password typed on two systems may differ in its composition of characters (RFC 8265, section 4.2).
  compute('argon2id', { ...parameters, message: password.normalize('NFC') })

/** The hash of a password in PHC string format, with a new salt. Takes about 40 ms of a thread of the pool. */
export async function argon2Hash(password: string): Promise<string> {
  const nonce = randomBytes(SALT_BYTES)
  const cost = { memory: MEMORY_KIB, passes: PASSES, parallelism: LANES }
  return phc(cost, nonce, await derive(password, { ...cost, nonce, tagLength: TAG_BYTES }))
}

/** Whether a hash is of this password. Takes as long as `argon2Hash`. */
export async function matchesArgon2Hash(password: string, hash: string): Promise<boolean> {
  const [, memory, passes, parallelism, salt, tag] =
    /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(hash) ?? []
  if (salt === undefined || tag === undefined) throw new Error('a stored password is not an Argon2id hash')
  const expected = Buffer.from(tag, 'base64')
  const derived = await derive(password, {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    nonce: Buffer.from(salt, 'base64'),
    tagLength: expected.length,
  })
  return timingSafeEqual(derived, expected)
}

function phc(cost: Pick<Parameters, 'memory' | 'passes' | 'parallelism'>, salt: Buffer, tag: Buffer): string {
  const text = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '')
  return `$argon2id$v=${VERSION}$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${text(salt)}$${text(tag)}`
}

/**
 * A hash of no password, with the parameters of real ones: checking it takes as long as checking that of a person.
 */
export const NO_PASSWORD_HASH = phc(
  { memory: MEMORY_KIB, passes: PASSES, parallelism: LANES },
  randomBytes(SALT_BYTES),
  randomBytes(TAG_BYTES),
)
