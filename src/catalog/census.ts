import type { Db } from './catalog.ts'
import { type Host, listHosts } from './host.ts'
import { sql } from './sql.ts'

/** Metrics of the catalog's content. */
export interface Census {
  readonly operations: { readonly scheduling: number; readonly running: number }
  /** Age in seconds of the oldest operation that is due and not begun; 0 without one. */
  readonly queueAge: number
  readonly endpoints: {
    readonly active: number
    readonly idle: number
    readonly init: number
    readonly disabled: number
  }
  /** The CU of hosts, by id: what the sizes of computes may sum up to, where that is limited, and what they do. */
  readonly capacity: Readonly<Record<string, number>>
  readonly used: Readonly<Record<string, number>>
  /** Bytes of hosts' disks, by id, and what is free of them. */
  readonly disk: Readonly<Record<string, number>>
  readonly diskFree: Readonly<Record<string, number>>
  /** The bytes of the files of hosts' branches. */
  readonly branchBytes: Readonly<Record<string, number>>
  readonly clones: Readonly<Record<string, number>>
  /** The space of hosts' stores, by how they are cloned: the bytes of their files, and of their blocks. */
  readonly storage: { readonly labels: Readonly<Record<string, string>>; readonly value: number }[]
  /** Of hosts' images: the size, the most that it may grow by, and 1 where it is short and cannot grow; 0 without. */
  readonly imageBytes: Readonly<Record<string, number>>
  readonly imageGrowable: Readonly<Record<string, number>>
  readonly imageShort: Readonly<Record<string, number>>
}

/**
 * Counts unfinished operations and endpoints of all accounts. Uses partial indexes, so that ended and deleted rows cost
 * no time.
 */
export async function takeCensus(db: Db): Promise<Census> {
  const [operations, oldest, endpoints, hosts] = await Promise.all([
    db.row<Census['operations']>(sql`
      select count(*) filter (where status = 'scheduling') as scheduling,
             count(*) filter (where status = 'running') as running
        from operation where finished_at is null`),
    // Same condition as due_operations(), without locking. An operation that waits for another one is not late.
    db.row<{ seconds: number }>(sql`
      select extract(epoch from clock_timestamp() - o.run_at)::float8 as seconds
        from operation o
       where o.finished_at is null and o.behind is null and o.status = 'scheduling' and o.run_at <= clock_timestamp()
         and not exists (select from operation_hold h
                          where h.project_id = o.project_id and h.resource = any (o.excludes || o.shares)
                            and h.exclusive and h.seq < o.seq)
         and (o.passes_shared or not exists (
               select from operation_hold h
                where h.project_id = o.project_id and h.resource = any (o.excludes)
                  and not h.exclusive and h.seq < o.seq))
       order by o.run_at limit 1`),
    db.rows<{ disabled: boolean; current_state: 'active' | 'idle' | 'init'; count: number }>(sql`
      select disabled, current_state, count(*) as count from endpoint
       where deleted_at is null group by disabled, current_state`),
    listHosts(db),
  ])
  const counts = { active: 0, idle: 0, init: 0, disabled: 0 }
  // A disabled endpoint counts as disabled once its compute has stopped.
  for (const { disabled, current_state, count } of endpoints)
    counts[disabled && current_state !== 'active' ? 'disabled' : current_state] += count
  return {
    operations: { scheduling: operations?.scheduling ?? 0, running: operations?.running ?? 0 },
    queueAge: oldest?.seconds ?? 0,
    endpoints: counts,
    capacity: Object.fromEntries(hosts.flatMap(({ id, capacity_cu: cu }) => (cu === null ? [] : [[id, cu]]))),
    used: Object.fromEntries(hosts.map(({ id, used_cu }) => [id, used_cu])),
    disk: Object.fromEntries(hosts.map(({ id, disk_bytes: bytes }) => [id, bytes ?? 0])),
    clones: Object.fromEntries(hosts.map(({ id, clone_mode }) => [id, clone_mode === 'copy' ? 0 : 1])),
    diskFree: Object.fromEntries(hosts.map(({ id, disk_free_bytes: bytes }) => [id, bytes ?? 0])),
    branchBytes: Object.fromEntries(hosts.map(({ id, store_bytes }) => [id, store_bytes])),
    ...storageOf(hosts),
  }
}

function storageOf(hosts: readonly Host[]): Pick<Census, 'storage' | 'imageBytes' | 'imageGrowable' | 'imageShort'> {
  return {
    storage: hosts.flatMap(({ id: host, clone_mode: mode, apparent_bytes: apparent, real_bytes: real }) => {
      if (mode === null) return []
      const bytes = { apparent, real }
      return Object.entries(bytes).map(([kind, value]) => ({ labels: { host, mode, kind }, value }))
    }),
    imageBytes: Object.fromEntries(hosts.map(({ id, image }) => [id, image?.bytes ?? 0])),
    imageGrowable: Object.fromEntries(hosts.map(({ id, growable_bytes }) => [id, growable_bytes])),
    imageShort: Object.fromEntries(hosts.map(({ id, image }) => [id, image?.problem ? 1 : 0])),
  }
}
