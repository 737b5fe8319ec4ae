import { join } from 'node:path'

/** The embedded catalog listens on a Unix socket only; its port is part of that socket's name. */
const EMBEDDED_PORT = 5432

export const embeddedSocketDir = (runtimeDir: string): string => join(runtimeDir, 'catalog')

/** The catalog's superuser, and the role of proxies with the privileges that they need. */
export const CATALOG_ADMIN = 'neap_admin'
export const CATALOG_PROXY = 'neap_proxy'

/** The login at the embedded catalog. */
export interface EmbeddedLogin {
  readonly runtimeDir: string
  readonly user: typeof CATALOG_ADMIN | typeof CATALOG_PROXY
  /** The possible passwords, the likeliest first: more than one only during a rotation. */
  readonly passwords: () => readonly string[]
  /** Reads the passwords again: without a session in the catalog this process received no notification of a change. */
  readonly reload?: () => Promise<void>
}

/** The login in the driver's form. @param password called at each login */
export const loginConfig = ({ runtimeDir, user }: EmbeddedLogin, password: () => string) => ({
  host: embeddedSocketDir(runtimeDir),
  port: EMBEDDED_PORT,
  user,
  password,
  database: 'neap',
})

/** The URL of the embedded catalog for its superuser. */
export function embeddedCatalogUrl(runtimeDir: string, password: string): string {
  const host = encodeURIComponent(embeddedSocketDir(runtimeDir))
  return `postgresql://${CATALOG_ADMIN}:${password}@/neap?host=${host}&port=${EMBEDDED_PORT}`
}
