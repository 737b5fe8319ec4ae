import type { Catalog, Db } from './catalog.ts'
import { REGISTRATION_LOCK } from './advisory_locks.ts'
import { UsageError } from '../errors.ts'
import type { HostImage } from './image.ts'
import { sql } from './sql.ts'

/** The capacity of a machine. */
export interface Capacity {
  readonly region: string
  readonly cpus: number
  readonly memoryBytes: number
  /** What the sizes of its computes may sum up to, in CU. */
  readonly capacityCu: number
  /** Why computes are not held to their sizes there. */
  readonly limitError?: string | undefined
  /** How stores are cloned there. */
  readonly cloneMode?: Host['clone_mode']
  /** Its data directory, where other ones may share the catalog. */
  readonly place?: string | undefined
}

/** A machine that has stores and runs computes. */
export interface Host {
  readonly id: string
  readonly region: string | null
  readonly cpus: number | null
  readonly memory_bytes: number | null
  /** The limit of the sum of the sizes of its computes, in CU; null: unlimited. */
  readonly capacity_cu: number | null
  /** What they sum up to now. */
  readonly used_cu: number
  /** The disk of its stores, and the room there, in bytes; null before its first heartbeat. */
  readonly disk_bytes: number | null
  readonly disk_free_bytes: number | null
  /** The bytes of the files of its branches, as last measured. */
  readonly store_bytes: number
  /** Why computes are not held to their sizes there; null: they are. */
  readonly limit_error: string | null
  /** How stores are cloned there; null before its worker has registered. */
  readonly clone_mode: 'reflink' | 'image' | 'copy' | null
  /** The image of its stores, and by how much the disk of those may grow by itself. */
  readonly image: HostImage | null
  readonly growable_bytes: number
  /** When the space of its stores was measured; the bytes of their files, and of their blocks, each counted once. */
  readonly space_measured_at: string | null
  readonly apparent_bytes: number
  readonly real_bytes: number
  /** When its worker was last heard of; null before the first one has registered. */
  readonly heartbeat_at: string | null
}

/** A worker records a heartbeat every ten seconds. */
const LIVES_SECONDS = 25

/**
 * Registers a host under this id. The first one of a catalog takes over the row that was there before it, with the
 * stores that requests have placed on it. Returns the number of its heartbeats.
 * Errors: UsageError, when a worker of another data directory lives under it.
 */
export async function registerHost(catalog: Catalog, id: string, capacity: Capacity): Promise<number> {
  return catalog.transaction(async (tx) => {
    await tx.rows(sql`select pg_advisory_xact_lock(${REGISTRATION_LOCK}::bigint)`)
    const { region, cpus, memoryBytes, capacityCu, limitError = null, place = null, cloneMode = null } = capacity
    const known = await tx.row<{ elsewhere: boolean }>(sql`
      select place <> ${place} and heartbeat_at > clock_timestamp() - make_interval(secs => ${LIVES_SECONDS})
               as elsewhere
        from host where id = ${id}`)
    if (known?.elsewhere)
      throw new UsageError(
        `Another worker lives as the host ${id}, on another data directory. If this one is a copy of that, ` +
          'remove its file "host"; if that one has just ended, start again in half a minute.',
      )
    const first = known ? undefined : await tx.row<{ id: string }>(sql`select id from host where heartbeat_at is null`)
    if (first) {
      await tx.rows(sql`update host set id = ${id} where id = ${first.id}`)
      await tx.rows(sql`update operation set host_id = ${id} where finished_at is null and host_id = ${first.id}`)
    }
    const host = await tx.row<{ beats: number }>(sql`
      insert into host (id, region, cpus, memory_bytes, capacity_cu, limit_error, place, clone_mode, heartbeat_at)
      values (${id}, ${region}, ${cpus}, ${memoryBytes}, ${capacityCu}, ${limitError}, ${place}, ${cloneMode},
              clock_timestamp())
      on conflict (id) do update set region = excluded.region, cpus = excluded.cpus,
                memory_bytes = excluded.memory_bytes,
                capacity_cu = excluded.capacity_cu, limit_error = excluded.limit_error,
                place = excluded.place, clone_mode = excluded.clone_mode, heartbeat_at = excluded.heartbeat_at
      returning beats`)
    return host?.beats ?? 0
  })
}

/** The disk of a host's data directory, in bytes. */
export interface HostDisk {
  readonly bytes: number
  /** What an ordinary user may still write. */
  readonly free: number
  /** With less than this free it is short. */
  readonly reserve: number
  /** Whether it is short of inodes. */
  readonly lacksInodes: boolean
}

/** A disk that is short remains so until this much more than its reserve is free. */
const RELIEF = 1.25

/** The state of the catalog at a heartbeat. */
export interface Heartbeat {
  /** The number of the host's heartbeats. */
  readonly beats: number
  readonly epoch: number
  /** The id of the installation. */
  readonly installation: string
}

/**
 * Records that the worker of a host lives, and the state of its disk. Returns undefined if
 * the host is in another place by now.
 */
export function recordHeartbeat(
  db: Db,
  id: string,
  { bytes, free, reserve, lacksInodes }: HostDisk,
  place: string | undefined,
): Promise<Heartbeat | undefined> {
  return db.row(sql`
    update host set heartbeat_at = clock_timestamp(), beats = beats + 1,
           disk_bytes = ${bytes}, disk_free_bytes = ${free},
           disk_short = ${lacksInodes}::bool or
             ${free}::int8 < ${reserve}::int8 * case when disk_short then ${RELIEF}::float8 else 1 end
     where id = ${id} and place is not distinct from ${place ?? null}
    returning beats, (select epoch from installation), (select i.id from installation i) as installation`)
}

/** The extensions that tenants may create, by the version of Postgres. */
export type ExtensionsByVersion = Readonly<Record<number, readonly { name: string; default_version: string }[]>>

/** Records the versions of Postgres that are installed on a host, and the extensions that they offer. */
export async function recordPgVersions(
  db: Db,
  id: string,
  versions: readonly number[],
  extensions: ExtensionsByVersion,
): Promise<void> {
  const offered = JSON.stringify(extensions)
  await db.rows(sql`
    update host set pg_versions = ${versions}::int[], extensions = ${offered}::jsonb
     where id = ${id} and (pg_versions, extensions) is distinct from (${versions}::int[], ${offered}::jsonb)`)
}

/** The versions of Postgres of all hosts with the extensions that some host offers. */
export function listOffered(
  db: Db,
): Promise<{ version: number; extensions: { name: string; default_version: string }[] }[]> {
  return db.rows(sql`
    select v.version::int as version,
           jsonb_agg(distinct x.extension order by x.extension) as extensions
      from host h, jsonb_each(h.extensions) v (version, list), jsonb_array_elements(v.list) x (extension)
     group by v.version order by v.version::int`)
}

/** The versions that hosts have recorded. Returns undefined before one has recorded any. */
export async function installedPgVersions(db: Db): Promise<number[] | undefined> {
  const rows = await db.rows<{ version: number }>(
    sql`select distinct version from host, unnest(pg_versions) version order by version`,
  )
  return rows.length === 0 ? undefined : rows.map(({ version }) => version)
}

/** Records why computes have no egress on a host; undefined if they have. */
export async function recordEgressError(db: Db, id: string, error: string | undefined): Promise<void> {
  await db.rows(sql`update host set egress_error = ${error ?? null} where id = ${id}`)
}

/** Why a project's computes have no egress, by the hosts of its stores; undefined when no reason is recorded. */
export async function whyNoEgress(db: Db, projectId: string): Promise<string | undefined> {
  const row = await db.row<{ error: string | null }>(sql`
    select h.egress_error as error
      from host h join store s on s.host_id = h.id join branch b on b.store_id = s.id
     where b.project_id = ${projectId} and h.egress_error is not null limit 1`)
  return row?.error ?? undefined
}

export function listHosts(db: Db): Promise<Host[]> {
  return db.rows(sql`
    select id, region, cpus, memory_bytes, capacity_cu, limit_error, heartbeat_at, disk_bytes, disk_free_bytes,
           store_bytes, clone_mode, image, growable_bytes, space_measured_at, apparent_bytes, real_bytes,
           room_used(id) as used_cu
      from host h order by created_at, id`)
}

/** Those of the stores that the catalog has on another host, but for one that the next host to register takes over. */
export function listStoresElsewhere(
  db: Db,
  hostId: string,
  storeIds: readonly string[],
): Promise<{ id: string; host_id: string }[]> {
  return db.rows(sql`
    select s.id, s.host_id from store s join host h on h.id = s.host_id
     where s.id = any (${storeIds}::text[]) and s.host_id <> ${hostId} and h.heartbeat_at is not null order by s.id`)
}

/** Whether the disk of the host that has a branch is so full that computes there accept no writes. */
export async function isDiskShort(db: Db, branchId: string): Promise<boolean> {
  const row = await db.row<{ disk_short: boolean }>(sql`
    select h.disk_short from branch b join store s on s.id = b.store_id join host h on h.id = s.host_id
     where b.id = ${branchId}`)
  return row?.disk_short ?? false
}
