import { join } from 'node:path'

/** The embedded catalog listens on a Unix socket only; its port is part of that socket's name. */
const EMBEDDED_PORT = 5432

export const embeddedSocketDir = (runtimeDir: string): string => join(runtimeDir, 'catalog')

/** The URL of the catalog that Neap runs itself. */
export function embeddedCatalogUrl(runtimeDir: string, adminPassword: string): string {
  return `postgresql://neap_admin:${adminPassword}@/neap?host=${encodeURIComponent(embeddedSocketDir(runtimeDir))}&port=${EMBEDDED_PORT}`
}
