import { createHmac } from 'node:crypto'
import { UsageError } from '../errors.ts'
import { catalogProxyPassword, type PartName, type Keys, keysFor, type PartKeys, readPartKeys } from './part_keys.ts'
import { readOrCreateRing } from './ring.ts'
import { generationOf, open, seal, sealedUnderLostKey } from './sealing.ts'
import { CATALOG, type Passwords, type StoreSecrets, storeSecrets } from './stores.ts'

/** The kinds of sealed texts: each has a key of its own. */
export type Sealed = 'password' | 'webhook' | 'reply'

/** A keyed hash, and the generation of the key that made it. */
export interface HashedApiKey {
  readonly hash: Buffer
  readonly generation: string
}

/** The uses of a part's keys. A use without its key throws. */
export interface Secrets {
  /** Seals a text. It opens only with the same `context`, which identifies its owner. */
  readonly encrypt: (what: Sealed, text: string, context: string) => Buffer
  /**
   * Opens a sealed text. Throws when the key, the context or a single bit differs. Errors: NOT_ALLOWED (its key is
   * lost).
   */
  readonly decrypt: (what: Sealed, sealed: Buffer, context: string) => string
  /** Whether a text is sealed under the current key. */
  readonly isCurrent: (sealed: Buffer) => boolean
  /**
   * The hashes of an API key for the catalog (HMAC-SHA-256): under the current key, then under earlier ones, since the
   * catalog keeps the earlier hash until the API key is used.
   */
  readonly hashApiKey: (key: string) => readonly [current: HashedApiKey, ...earlier: HashedApiKey[]]
  /** The keyed hashes of the code of a login that waits for approval (HMAC-SHA-256), under each key in use. */
  readonly hashLoginCode: (code: string) => readonly [Buffer, ...Buffer[]]
  /** The passwords of the role that this part logs in as at the embedded catalog. */
  readonly catalogPasswords: () => Passwords
  /** The password of proxies at the embedded catalog. */
  readonly proxyPassword: () => string
  /** The passwords of Neap's own roles in computes. */
  readonly stores: StoreSecrets
  /** The key for salts of roles that do not exist: the same in every process, indistinguishable from real ones. */
  readonly mockSaltKey: () => Buffer
  /** The revision of the ring that these keys are from. */
  readonly revision: () => number
  /** Reads the keys again. */
  readonly reload: () => Promise<void>
}

/** All secrets that derive from the master key in `file`, created when it does not exist. Errors: UsageError. */
export async function loadOrCreateSecrets(file: string): Promise<Secrets> {
  const read = async (): Promise<PartKeys> => keysFor('all', await readOrCreateRing(file))
  return secretsFrom(await read(), read)
}

/** The secrets of one part, by the keys in `file`. Errors: UsageError, also when there is no such file. */
export async function loadPartSecrets(file: string, holder: PartName): Promise<Secrets> {
  const read = async (): Promise<PartKeys> => {
    const keys = await readPartKeys(file, holder)
    if (keys) return keys
    throw new UsageError(
      `There is no ${file}: begin with neap up, or copy ` +
        `the keys of neap ${holder} from the Neap that this is to be a part of.`,
    )
  }
  return secretsFrom(await read(), read)
}

function secretsFrom(first: PartKeys, read: () => Promise<PartKeys>): Secrets {
  let keys = first

  const noKey = (name: keyof Keys): Error => new Error(`neap ${keys.holder} has no key for this: ${name}`)

  function all(name: keyof Keys): [Buffer, ...Buffer[]] {
    const [current, ...others] = keys.generations.flatMap((generation) => generation.keys[name] ?? [])
    if (!current) throw noKey(name)
    return [current, ...others]
  }

  function keyOf(what: Sealed, sealed: Buffer): Buffer {
    const generation = generationOf(sealed)
    const found =
      generation === undefined
        ? keys.generations.find((each) => each.keys.sealedFirst)?.keys.sealedFirst
        : keys.generations.find(({ id }) => id === generation)?.keys[what]
    if (!found) throw sealedUnderLostKey()
    return found
  }

  const stores = storeSecrets(() => keys)
  return {
    encrypt: (what, text, context) => seal(all(what)[0], keys.generations[0]?.id ?? '', text, context),
    decrypt: (what, sealed, context) => open(keyOf(what, sealed), sealed, context),
    isCurrent: (sealed) => generationOf(sealed) === keys.generations[0]?.id,
    hashApiKey: (key) => {
      const [current, ...earlier] = keys.generations.flatMap(({ id: generation, keys: { apiKey } }) =>
        apiKey ? { generation, hash: createHmac('sha256', apiKey).update(key).digest() } : [],
      )
      if (!current) throw noKey('apiKey')
      return [current, ...earlier]
    },
    hashLoginCode(code) {
      const hash = (key: Buffer): Buffer => createHmac('sha256', key).update(code).digest()
      const [current, ...others] = all('loginCode')
      return [hash(current), ...others.map(hash)]
    },
    catalogPasswords() {
      if (keys.holder !== 'proxy') return stores.admin(CATALOG)
      const [current, ...others] = all('catalogProxy')
      return [catalogProxyPassword(current), ...others.map(catalogProxyPassword)]
    },
    proxyPassword: () => catalogProxyPassword(all('catalogProxy')[0]),
    stores,
    mockSaltKey() {
      if (!keys.mockSalt) throw new Error(`neap ${keys.holder} has no key for salts`)
      return keys.mockSalt
    },
    revision: () => keys.revision,
    async reload() {
      keys = await read()
    },
  }
}
