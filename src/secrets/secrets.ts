import { createHmac } from 'node:crypto'
import { UsageError } from '../errors.ts'
import { catalogProxyPassword, type KeyHolder, type Keys, keysFor, type PartKeys, readPartKeys } from './part_keys.ts'
import { readOrCreateRing } from './ring.ts'
import { generationOf, open, seal, sealedUnderLostKey } from './sealing.ts'
import { CATALOG, type Passwords, type StoreSecrets, storeSecrets } from './stores.ts'

/** What is sealed: each has a key of its own. */
export type Sealed = 'password' | 'webhook' | 'reply'

/** A keyed hash, and the generation of the key that made it. */
export interface HashedApiKey {
  readonly hash: Buffer
  readonly generation: string
}

/** What a part of Neap does with its keys. What it has no key for throws. */
export interface Secrets {
  /** Seals a text. It opens again only with the same `context`, which says whose it is. */
  readonly encrypt: (what: Sealed, text: string, context: string) => Buffer
  /** Opens what `encrypt` sealed. Throws when the key, the context or a single bit is another. Errors: NOT_ALLOWED (its key is lost). */
  readonly decrypt: (what: Sealed, sealed: Buffer, context: string) => string
  /** Whether something is sealed under the current key. */
  readonly isCurrent: (sealed: Buffer) => boolean
  /** What the catalog keeps of an API key: HMAC-SHA-256. Under an earlier key where the catalog has seen none since: those follow. */
  readonly hashApiKey: (key: string) => readonly [current: HashedApiKey, ...earlier: HashedApiKey[]]
  /** Of the role by which this part logs in at the embedded catalog. */
  readonly catalogPasswords: () => Passwords
  /** The password that proxies have there. */
  readonly proxyPassword: () => string
  /** Of Neap's own roles in computes. */
  readonly stores: StoreSecrets
  /** Makes the salts that are shown for roles that there are not: the same in every process, and not to be told from real ones. */
  readonly mockSaltKey: () => Buffer
  /** Which change of the keys these are of. */
  readonly revision: () => number
  /** Reads the keys again. */
  readonly reload: () => Promise<void>
}

/** All that rests on the master key in `file`, which is made when it does not exist. Errors: UsageError. */
export async function loadOrCreateSecrets(file: string): Promise<Secrets> {
  const read = async (): Promise<PartKeys> => keysFor('all', await readOrCreateRing(file))
  return secretsFrom(await read(), read)
}

/** What one part may do, by the keys in `file`. Errors: UsageError, also where there is no such file. */
export async function loadPartSecrets(file: string, holder: KeyHolder): Promise<Secrets> {
  const read = async (): Promise<PartKeys> => {
    const keys = await readPartKeys(file, holder)
    if (keys) return keys
    throw new UsageError(
      `There is no ${file}: begin with neap up, or copy the keys of neap ${holder} from the Neap that this is to be a part of.`,
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
