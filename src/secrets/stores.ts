import { derivedPassword, keyAsPassword } from './derive.ts'
import { FIRST_GENERATION } from './ring.ts'
import type { PartKeys } from './part_keys.ts'

/** The ids of the embedded catalog and the templates for deriving passwords; branches' stores begin with `br-`. */
export const CATALOG = 'catalog'
export const TEMPLATE = 'template'

/** The passwords that one of Neap's own roles may have at a store, the current one first; several during a rotation. */
export type Passwords = readonly [current: string, ...others: string[]]

/** Passwords of Neap's own roles in a compute, different for each store: one that leaks opens no other store. */
export interface StoreSecrets {
  /** Of the superuser neap_admin. */
  readonly admin: (store: string) => Passwords
  /** Of neap_login_reader, which can read the verifiers of roles only. */
  readonly loginReader: (store: string) => Passwords
  /** The note of a store with current passwords: the id and generation that they derive from. */
  readonly note: (store: string) => string
  /** The passwords that neap_admin may have in a store with this note; empty when their key no longer exists. */
  readonly adminOf: (note: string | undefined) => readonly string[]
  /** Whether the key of the passwords in a store with this note is known to be gone. */
  readonly isGone: (note: string | undefined) => boolean
  /**
   * Whether that key was lost rather than retired by a rotation. A rotation renews the catalog's passwords, so a
   * catalog with the note of a retired key is from before it.
   */
  readonly isLost: (note: string | undefined) => boolean
}

/** @param keys returns the keys of now: they may be reloaded */
export function storeSecrets(keys: () => PartKeys): StoreSecrets {
  const passwords = (name: 'storeAdmin' | 'storeLogin', store: string): Passwords => {
    const [current, ...others] = keys().generations.flatMap((generation) => generation.keys[name] ?? [])
    if (!current) throw new Error(`neap ${keys().holder} has no key for the passwords of stores`)
    return [derivedPassword(current, store), ...others.map((key) => derivedPassword(key, store))]
  }
  const admin = (store: string): Passwords => passwords('storeAdmin', store)
  return {
    admin,
    loginReader: (store) => passwords('storeLogin', store),
    note: (store) => noteOf(store, keys().generations[0]?.id ?? FIRST_GENERATION),
    adminOf(note) {
      const { store, generation } = partsOf(note)
      const found = keys().generations.find(({ id }) => id === generation)?.keys
      const key = store === undefined ? found?.shared : found?.storeAdmin
      if (!key) return []
      if (store === undefined) return [keyAsPassword(key)]
      // The note may be older or newer than the data that it was copied with.
      const first = derivedPassword(key, store)
      return [first, ...admin(store).filter((password) => password !== first)]
    },
    isGone(note) {
      const { generation } = partsOf(note)
      return keys().lost || keys().retired.includes(generation)
    },
    isLost: (note) => keys().lost && !keys().retired.includes(partsOf(note).generation),
  }
}

/** Stores of the first generation have only their id in the note; older ones have no note. */
const noteOf = (store: string, generation: string): string =>
  generation === FIRST_GENERATION ? store : `${store}@${generation}`

function partsOf(note: string | undefined): { store: string | undefined; generation: string } {
  const [store, generation = FIRST_GENERATION] = note?.split('@') ?? []
  return { store, generation }
}
