import { join } from 'node:path'
import pg from 'pg'
import { embeddedCatalogUrl } from '../src/catalog/embedded.ts'
import { loadOrCreateSecrets } from '../src/secrets/secrets.ts'
import type { Neap } from './neap.ts'
import { computeOf, type Place } from './project.ts'

/*
 * Access that only Neap itself has: the catalog, and the superuser of a compute. For tests that must see or force a
 * state that no client can.
 */

const secretsOf = ({ ready }: Neap) => loadOrCreateSecrets(join(ready.data_dir, 'secret.key'))

/** Runs a query in the catalog. */
export async function catalogQuery<R extends pg.QueryResultRow>(neap: Neap, sql: string, values: unknown[] = []) {
  const client = await catalogClient(neap)
  try {
    return (await client.query<R>(sql, values)).rows
  } finally {
    await client.end()
  }
}

export async function catalogUrl(neap: Neap): Promise<string> {
  return embeddedCatalogUrl(join(neap.ready.data_dir, 'run'), (await secretsOf(neap)).catalogPasswords()[0] ?? '')
}

/** A session in the catalog, e.g. to hold a lock there. */
export async function catalogClient(neap: Neap): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: await catalogUrl(neap) })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** A superuser's session at the running compute of an endpoint. */
export async function superuser(neap: Neap, place: Place, database = 'neap'): Promise<pg.Client> {
  const { socket_dir, port } = (await computeOf(neap, place)) ?? {}
  if (!socket_dir || !port) throw new Error('no compute runs there')
  const [endpoint] = await catalogQuery<{ store: string }>(
    neap,
    'select c.store_id as store from endpoint e join compute c on c.id = e.compute_id where e.id = $1',
    [place.endpoint_id],
  )
  const client = new pg.Client({
    host: socket_dir,
    port,
    user: 'neap_admin',
    password: (await secretsOf(neap)).stores.admin(endpoint?.store ?? '')[0],
    database,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

/**
 * Runs a shell script as the operating-system user of a compute and returns its stdout and stderr. Stands in for code
 * execution through a vulnerability in Postgres.
 */
export async function shell(session: pg.Client, script: string): Promise<string> {
  await session.query('create temp table if not exists said (line text)')
  await session.query('truncate said')
  const program = `{ ${script} ; } 2>&1 | tr '\\\\\\\\\\t' '//'`.replaceAll("'", "''")
  await session.query(`copy said from program '${program}'`)
  const { rows } = await session.query<{ line: string }>('select line from said')
  return rows.map(({ line }) => line).join('\n')
}
