import pg from 'pg'
import type { Db } from './catalog.ts'
import { CATALOG_PROXY } from './embedded.ts'

/** Lets the role of proxies log in. @param verifier its password as SCRAM-SHA-256 verifier */
export async function setProxyPassword(db: Db, verifier: string): Promise<void> {
  const text = `alter role ${CATALOG_PROXY} with login nosuperuser nocreatedb nocreaterole noinherit password ${pg.escapeLiteral(verifier)}`
  await db.rows({ name: '', text, values: [] })
}
