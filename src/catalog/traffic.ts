import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Traffic between clients and an endpoint: bytes inside TLS, and connections opened. */
export interface TrafficCounts {
  readonly toClients: number
  readonly fromClients: number
  readonly connections: number
}

/** A year for comparisons, plus a month in which to read it. */
const KEPT_MONTHS = 13
/** How long a silent proxy may still have a batch to send. */
const WRITER_DAYS = 7

/**
 * Adds the counts of one proxy process, by endpoint id, to this month and to what their branches have used: each batch
 * number once, even if it is sent again. Batch numbers of a writer increase. Unknown endpoints are left out.
 */
export async function addTraffic(
  db: Db,
  writer: string,
  batch: number,
  counted: ReadonlyMap<string, TrafficCounts>,
): Promise<void> {
  const counts = [...counted.values()]
  // In key order, so that no two proxies deadlock.
  await db.rows(sql`
    with is_new as (
      insert into traffic_writer as w (id, batch) values (${writer}, ${batch})
      on conflict (id) do update set batch = excluded.batch, written_at = excluded.written_at
       where w.batch < excluded.batch
      returning 1),
    counted as (
      select e.project_id, e.branch_id, e.id, c.to_clients, c.from_clients, c.connections
        from unnest(${[...counted.keys()]}::text[], ${counts.map(({ toClients }) => toClients)}::bigint[],
                    ${counts.map(({ fromClients }) => fromClients)}::bigint[],
                    ${counts.map(({ connections }) => connections)}::bigint[])
             c (id, to_clients, from_clients, connections)
        join endpoint e on e.id = c.id
       where exists (select from is_new)),
    consumed as (
      insert into consumption as u (project_id, branch_id, period, since, transfer_bytes)
      select c.project_id, c.branch_id, p.period, p.since, sum(c.to_clients)
        from counted c, periods_of(clock_timestamp()) p
       group by 1, 2, 3, 4 order by 1, 3, 4, 2
      on conflict (project_id, period, since, branch_id) do update
         set transfer_bytes = u.transfer_bytes + excluded.transfer_bytes)
    insert into endpoint_traffic as t (project_id, month, branch_id, endpoint_id,
                                       bytes_to_clients, bytes_from_clients, connections)
    select project_id, this_month(), branch_id, id, to_clients, from_clients, connections
      from counted order by 1, 2, 3, 4
    on conflict (project_id, month, branch_id, endpoint_id) do update
       set bytes_to_clients = t.bytes_to_clients + excluded.bytes_to_clients,
           bytes_from_clients = t.bytes_from_clients + excluded.bytes_from_clients,
           connections = t.connections + excluded.connections`)
}

export interface EndpointTraffic {
  readonly since: string
  readonly bytes_to_clients: number
  readonly bytes_from_clients: number
  readonly connections: number
}

/** Traffic between clients and an endpoint this month, on all its branches. */
export async function endpointTraffic(db: Db, projectId: string, endpointId: string): Promise<EndpointTraffic> {
  const row = await db.row<EndpointTraffic>(sql`
    select this_month()::timestamp at time zone 'UTC' as since,
           coalesce(sum(bytes_to_clients), 0)::int8 as bytes_to_clients,
           coalesce(sum(bytes_from_clients), 0)::int8 as bytes_from_clients,
           coalesce(sum(connections), 0)::int8 as connections
      from endpoint_traffic
     where project_id = ${projectId} and month = this_month() and endpoint_id = ${endpointId}`)
  return row as EndpointTraffic
}

/** Removes up to `limit` months past their retention. Returns how many it removed. */
export async function expireTraffic(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from endpoint_traffic where (project_id, month, branch_id, endpoint_id) in (
      select project_id, month, branch_id, endpoint_id from endpoint_traffic
       where month < this_month() - make_interval(months => ${KEPT_MONTHS})
       order by month limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}

/** Removes up to `limit` writers that ended long ago. Returns how many it removed. */
export async function expireTrafficWriters(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from traffic_writer where id in (
      select id from traffic_writer where written_at < statement_timestamp() - make_interval(days => ${WRITER_DAYS})
       limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
