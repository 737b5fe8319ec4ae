import pg from 'pg'
import type { Db } from './catalog.ts'
import { CATALOG_PROXY } from './embedded.ts'

/** Lets the role of proxies log in. @param verifier the SCRAM-SHA-256 verifier of its password */
export async function setProxyPassword(db: Db, verifier: string): Promise<void> {
  const text = `
    alter role ${CATALOG_PROXY} with login nosuperuser nocreatedb nocreaterole noinherit
          password ${pg.escapeLiteral(verifier)}`
  await db.rows({ name: '', text, values: [] })
}
