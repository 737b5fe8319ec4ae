import { randomBytes } from 'node:crypto'
import { realpath, stat } from 'node:fs/promises'
import { readOrCreate, replaceFile } from '../durable_file.ts'
import { messageOf, UsageError } from '../errors.ts'
import { subkey } from './derive.ts'
import { decodeKeys, encodeKeys, readKeyFile } from './key_file.ts'

const KEY_BYTES = 32

/**
 * The master keys of a Neap, to which a rotation adds a generation:
 *
 *   next ──every part has it──▶ current ──the next one is──▶ old ──no secret is under it──▶ retired
 */
export interface Ring {
  /** Increases with each change, so that a rotation knows which parts have read the last one. */
  readonly revision: number
  /** Derives salts for roles that do not exist. Outlives a rotation, since changed salts would reveal those roles. */
  readonly mockSalt: Buffer
  /** Earlier keys were lost: secrets under them can only be replaced. */
  readonly lost: boolean
  readonly generations: readonly Generation[]
}

export interface Generation {
  /** 8 hexadecimal digits. */
  readonly id: string
  readonly createdAt: string
  readonly state: 'next' | 'current' | 'old' | 'retired'
  /** 32 bytes; undefined once retired. */
  readonly master: Buffer | undefined
  /** Of a retired one: the key that hashes API keys not used since. */
  readonly apiKey: Buffer | undefined
}

/** The id of a master key from before generations: its file holds 32 bytes only. */
export const FIRST_GENERATION = '00000000'

export const newGeneration = (state: Generation['state'], createdAt = new Date().toISOString()): Generation => ({
  id: randomBytes(4).toString('hex'),
  createdAt,
  state,
  master: randomBytes(KEY_BYTES),
  apiKey: undefined,
})

export const newRing = (lost: boolean): Ring => ({
  revision: 1,
  mockSalt: randomBytes(KEY_BYTES),
  lost,
  generations: [newGeneration('current')],
})

/** The generation that encrypts and hashes new secrets. */
export const currentOf = ({ generations }: Ring): Generation =>
  generations.find(({ state }) => state === 'current') as Generation

/** The ring in `file`, created when it does not exist. Errors: as `readRing`. */
export async function readOrCreateRing(file: string): Promise<Ring> {
  await readOrCreate(file, 0o600, () => encodeKeys(newRing(false))).catch((error: unknown) => {
    throw new UsageError(`The master key ${file} cannot be read or made: ${messageOf(error)}`)
  })
  return (await readRing(file)) as Ring
}

/**
 * Returns undefined when there is no file. Errors: UsageError (it is open to others, is no such key, or cannot be
 * read).
 */
export async function readRing(file: string): Promise<Ring | undefined> {
  const bytes = await readKeyFile(file)
  if (!bytes) return undefined
  if (bytes.length === KEY_BYTES) return ringOfFirst(bytes, (await stat(file)).mtime.toISOString())
  return decodeRing(bytes, file)
}

/** Replaces the ring in `file`, or in the target when `file` is a link. */
export async function writeRing(file: string, ring: Ring): Promise<void> {
  await replaceFile(await realpath(file).catch(() => file), 0o600, encodeKeys(ring))
}

const ringOfFirst = (master: Buffer, createdAt: string): Ring => ({
  revision: 0,
  mockSalt: subkey(master, 'mock salt v1'),
  lost: false,
  generations: [{ id: FIRST_GENERATION, createdAt, state: 'current', master, apiKey: undefined }],
})

function decodeRing(bytes: Buffer, file: string): Ring {
  const ring = ringIn(bytes)
  if (ring && currentOf(ring)?.master?.length === KEY_BYTES) return ring
  throw new UsageError(
    `The master key ${file} is damaged (${bytes.length} bytes): ` +
      'put it back from a backup, since without it no stored password can be read',
  )
}

/** Returns undefined when the bytes are no ring. */
function ringIn(bytes: Buffer): Ring | undefined {
  const read = decodeKeys<Ring>(bytes)
  if (!Array.isArray(read?.generations)) return undefined
  const generations = (read.generations as (Generation | null)[]).map((each) => ({
    ...each,
    master: bytesOf(each?.master),
    apiKey: bytesOf(each?.apiKey),
  }))
  return { ...read, mockSalt: bytesOf(read.mockSalt), generations } as Ring
}

/** The first rings stored bytes as base64 alone. */
const bytesOf = (value: Buffer | string | undefined): Buffer | undefined =>
  typeof value === 'string' ? Buffer.from(value, 'base64') : value
