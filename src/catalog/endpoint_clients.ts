import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/**
 * Records how many clients endpoints have at a proxy, by endpoint id; 0 removes. Fails when the proxy's registration
 * has ended: its rows went with it.
 */
export async function setClients(db: Db, proxyNumber: number, changed: ReadonlyMap<string, number>): Promise<void> {
  if (changed.size === 0) return
  const some = [...changed].filter(([, clients]) => clients > 0)
  const gone = [...changed].flatMap(([id, clients]) => (clients > 0 ? [] : [id]))
  await db.rows(sql`
    with gone as (
      delete from endpoint_clients where proxy_number = ${proxyNumber}::int and endpoint_id = any (${gone}::text[]))
    insert into endpoint_clients (endpoint_id, proxy_number, clients)
    select id, ${proxyNumber}::int, clients
      from unnest(${some.map(([id]) => id)}::text[], ${some.map(([, clients]) => clients)}::int[]) c (id, clients)
    on conflict (endpoint_id, proxy_number) do update set clients = excluded.clients`)
}
