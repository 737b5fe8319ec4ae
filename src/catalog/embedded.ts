import { join } from 'node:path'

/** The embedded catalog listens on a Unix socket only; its port is part of that socket's name. */
const EMBEDDED_PORT = 5432

export const embeddedSocketDir = (runtimeDir: string): string => join(runtimeDir, 'catalog')

/** The superuser of the catalog, and the role of proxies, which may read and write what they need and no more. */
export const CATALOG_ADMIN = 'neap_admin'
export const CATALOG_PROXY = 'neap_proxy'

/** How to log in at the catalog that Neap runs itself. */
export interface EmbeddedLogin {
  readonly runtimeDir: string
  readonly user: typeof CATALOG_ADMIN | typeof CATALOG_PROXY
  /** Those that the user may have now: more than one only while passwords are being changed, the likeliest first. */
  readonly passwords: () => readonly string[]
  /** Reads them again: while this process had no session in the catalog it was told of no change. */
  readonly reload?: () => Promise<void>
}

/** The same for the driver. @param password asked for at each login */
export const loginConfig = ({ runtimeDir, user }: EmbeddedLogin, password: () => string) => ({
  host: embeddedSocketDir(runtimeDir),
  port: EMBEDDED_PORT,
  user,
  password,
  database: 'neap',
})

/** The URL of the catalog that Neap runs itself, for its superuser. */
export function embeddedCatalogUrl(runtimeDir: string, password: string): string {
  return `postgresql://${CATALOG_ADMIN}:${password}@/neap?host=${encodeURIComponent(embeddedSocketDir(runtimeDir))}&port=${EMBEDDED_PORT}`
}
