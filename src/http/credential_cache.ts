import { hash } from 'node:crypto'

/** A cached credential is looked up again after this time: bounds the harm of a listener that died unnoticed. */
const CACHED_MS = 5_000

/** Looks up secrets that callers send: API keys, or tokens of sessions. */
export interface CredentialCache<T> {
  /** The cached result, or that of a look-up, which concurrent calls with the same secret share. */
  find(secret: string, address: string): Promise<T>
  /** Drops all results: called when a credential has changed. */
  forget(): void
}

/**
 * @param lookUp reads a credential from the catalog; `address` is the caller's
 * @param validMs milliseconds for which a result holds; 0 or less: it is not cached
 */
export function createCredentialCache<T>(
  lookUp: (secret: string, address: string) => Promise<T>,
  validMs: (found: T) => number,
): CredentialCache<T> {
  const cached = new Map<string, { readonly found: T; readonly until: number }>()
  const underWay = new Map<string, Promise<T>>()
  let changes = 0

  async function look(secret: string, digest: string, address: string): Promise<T> {
    const before = changes
    const found = await lookUp(secret, address)
    const ms = Math.min(CACHED_MS, validMs(found))
    // A credential revoked during its look-up must not be cached.
    if (before === changes && ms > 0) cached.set(digest, { found, until: Date.now() + ms })
    return found
  }

  return {
    async find(secret, address) {
      // The cache is keyed by a digest, so that the secret itself is not kept. A plain hash is enough: the secret has
      // 256 random bits, and the keyed hash costs ten times as much.
      const digest = hash('sha256', secret, 'base64')
      const known = cached.get(digest)
      if (known && known.until > Date.now()) return known.found
      let asked = underWay.get(digest)
      if (!asked) {
        asked = look(secret, digest, address).finally(() => {
          if (underWay.get(digest) === asked) underWay.delete(digest)
        })
        underWay.set(digest, asked)
      }
      return asked
    },
    forget() {
      changes += 1
      cached.clear()
      // Look-ups in progress may have read the state before the change.
      underWay.clear()
    },
  }
}
