import { join } from 'node:path'
import { storesWithOtherPasswords } from '../compute/process/renew_passwords.ts'
import { countApiKeys } from '../catalog/api_key.ts'
import type { Config } from '../config.ts'
import { currentOf, readOrCreateRing } from '../secrets/ring.ts'
import { certificateFiles, lifetimeOf } from '../tls/certificates.ts'
import { operatorFiles } from '../tls/operator.ts'
import { countSealed, type SealedCounts } from './reseal.ts'
import { withCatalog } from './with_catalog.ts'

/** The ages of a Neap's secrets. Times are RFC 3339. */
export interface SecretsReport {
  readonly keys: readonly SecretAge[]
  /** Passwords, webhook secrets and kept replies in the catalog. */
  readonly encrypted: SealedCounts
  /** Valid API keys that are hashed under an earlier key: each moves at its next use. */
  readonly api_keys_under_earlier_key: number
  /** Branches whose computes get the passwords of the current key at their next start. */
  readonly branches_under_earlier_key: readonly string[]
}

export interface SecretAge {
  readonly name: string
  /** `next` and `old` during a rotation; a `retired` one opens no sealed text any more. */
  readonly state: 'current' | 'next' | 'old' | 'retired'
  readonly made_at: string
  /** Null when it does not expire. */
  readonly ends_at: string | null
}

/** Errors: UsageError (Neap does not run). */
export function reportSecrets(config: Config): Promise<SecretsReport> {
  return withCatalog(config, async (catalog, secrets) => {
    const ring = await readOrCreateRing(config.secretFile)
    const current = currentOf(ring).id
    const earlier = (await countApiKeys(catalog)).filter(({ generation }) => generation !== current)
    return {
      keys: [
        ...ring.generations.map(({ id, state, createdAt }) => ({
          name: `master key ${id}`,
          state,
          made_at: createdAt,
          ends_at: null,
        })),
        ...(await certificates(config)),
      ],
      encrypted: await countSealed(catalog, secrets),
      api_keys_under_earlier_key: earlier.reduce((sum, { count }) => sum + count, 0),
      branches_under_earlier_key: await storesWithOtherPasswords(config, secrets.stores, { running: false }),
    }
  })
}

async function certificates(config: Config): Promise<SecretAge[]> {
  if (operatorFiles(config)) return []
  const { authority, nextAuthority, server } = certificateFiles(join(config.dataDir, 'tls'))
  const named = [
    ['certificate authority', 'current', authority],
    ['certificate authority', 'next', nextAuthority],
    ['server certificate', 'current', server],
  ] as const
  const ages: SecretAge[] = []
  for (const [name, state, file] of named) {
    const life = await lifetimeOf(file)
    if (life) ages.push({ name, state, made_at: life.madeAt, ends_at: life.endsAt })
  }
  return ages
}
