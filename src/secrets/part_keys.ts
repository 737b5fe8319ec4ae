import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { replaceFile } from '../durable_file.ts'
import { UsageError } from '../errors.ts'
import { keyAsPassword, subkey } from './derive.ts'
import { decodeKeys, encodeKeys, readKeyFile } from './key_file.ts'
import { FIRST_GENERATION, type Generation, readRing, type Ring } from './ring.ts'

/** The parts of Neap that have keys of their own. */
export type PartName = 'api' | 'worker' | 'proxy'
export const PART_NAMES: readonly PartName[] = ['api', 'worker', 'proxy']

/** The keys that derive from a master key, each for one purpose. */
export interface Keys {
  /** Seal passwords of roles, secrets of webhooks, and replies that are stored for `Idempotency-Key`. */
  readonly password?: Buffer
  readonly webhook?: Buffer
  readonly reply?: Buffer
  /** Opens texts that were sealed before each of these had a key of its own. */
  readonly sealedFirst?: Buffer
  /** Hashes API keys. */
  readonly apiKey?: Buffer
  /** Passwords of Neap's own roles in stores are derived from these. */
  readonly storeAdmin?: Buffer
  readonly storeLogin?: Buffer
  /** The one password of neap_admin from before each store had its own. */
  readonly shared?: Buffer
  /** The password of neap_proxy in the catalog. */
  readonly catalogProxy?: Buffer
  /** Hashes codes of logins that wait for approval. */
  readonly loginCode?: Buffer
}

/** The keys of each part, and no more than it needs: a proxy opens no password and mints no key. */
const NEEDS: Record<PartName, readonly (keyof Keys)[]> = {
  api: ['password', 'webhook', 'reply', 'sealedFirst', 'apiKey', 'storeAdmin', 'loginCode'],
  worker: ['webhook', 'storeAdmin', 'storeLogin', 'shared'],
  proxy: ['storeLogin', 'catalogProxy', 'loginCode'],
}

export interface GenerationKeys extends Pick<Generation, 'id' | 'state'> {
  readonly keys: Keys
}

/** The keys that a part reads, of all generations that still have some, the current one first. */
export interface PartKeys {
  readonly holder: PartName | 'all'
  readonly revision: number
  readonly lost: boolean
  /** Of proxies and `all` only. */
  readonly mockSalt?: Buffer
  readonly generations: readonly GenerationKeys[]
  /** Ids of retired generations. */
  readonly retired: readonly string[]
}

const ORDER = ['current', 'next', 'old', 'retired']

/** The keys in a ring for one part, or for all of them. */
export function keysFor(holder: PartKeys['holder'], ring: Ring): PartKeys {
  const needed = (name: keyof Keys): boolean => holder === 'all' || NEEDS[holder].includes(name)
  const generations = ring.generations
    .toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state))
    .map(({ id, state, master, apiKey }) => {
      const all: Keys = master ? derivedKeys(master, id === FIRST_GENERATION) : apiKey ? { apiKey } : {}
      const keys = Object.fromEntries(Object.entries(all).filter(([name]) => needed(name as keyof Keys)))
      return { id, state, keys }
    })
  return {
    holder,
    revision: ring.revision,
    lost: ring.lost,
    ...((holder === 'proxy' || holder === 'all') && { mockSalt: ring.mockSalt }),
    generations: generations.filter(({ keys }) => Object.keys(keys).length > 0),
    retired: generations.filter(({ state }) => state === 'retired').map(({ id }) => id),
  }
}

/** The key that hashes API keys under a master key. */
export const apiKeyHashKey = (master: Buffer): Buffer => subkey(master, 'api key hash v1')

const derivedKeys = (master: Buffer, isFirst: boolean): Keys => ({
  password: subkey(master, 'seal password v2'),
  webhook: subkey(master, 'seal webhook v2'),
  reply: subkey(master, 'seal reply v2'),
  apiKey: apiKeyHashKey(master),
  storeAdmin: subkey(master, 'store admin v2'),
  storeLogin: subkey(master, 'store login reader v2'),
  catalogProxy: subkey(master, 'catalog proxy v1'),
  loginCode: subkey(master, 'login code v1'),
  ...(isFirst && { sealedFirst: subkey(master, 'encrypt v1'), shared: subkey(master, 'admin password v1') }),
})

/** The path of a part's keys; no part has the master key beside them. */
export const partKeysFile = (dataDir: string, holder: PartName): string => join(dataDir, 'keys', `${holder}.key`)

/** Writes the key file of each part. */
export async function writePartKeys(dataDir: string, ring: Ring): Promise<void> {
  await mkdir(dirname(partKeysFile(dataDir, 'api')), { recursive: true, mode: 0o700 })
  for (const holder of PART_NAMES)
    await replaceFile(partKeysFile(dataDir, holder), 0o600, encodeKeys(keysFor(holder, ring)))
}

/**
 * The keys for a part in `file`: its own, or the master key, of which it keeps only the part's own keys.
 * Returns undefined when there is no such file. Errors: UsageError.
 */
export async function readPartKeys(file: string, holder: PartName): Promise<PartKeys | undefined> {
  const bytes = await readKeyFile(file)
  const own = bytes && decodeKeys<PartKeys>(bytes)
  if (own?.holder === undefined) {
    const ring = await readRing(file)
    return ring && keysFor(holder, ring)
  }
  if (own.holder !== holder)
    throw new UsageError(`${file} holds the keys of neap ${own.holder}: copy those of neap ${holder}`)
  return own as PartKeys
}

/** The password of neap_proxy. */
export const catalogProxyPassword = (key: Buffer): string => keyAsPassword(key)
