import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** A copy of a store's data directory, from which its WAL leads to later moments. */
export interface Base {
  readonly number: number
  /** All commits before `started_at` are in it, but not those after `made_at`. */
  readonly started_at: string
  readonly made_at: string
  /** It leads to any position from here on, with the WAL from `segment` on. */
  readonly lsn: string
  readonly segment: string
  /** The WAL that follows is removed but for a part that another store was made of. */
  readonly is_cut: boolean
}

/** The kept history of a store. */
export interface StoreHistory {
  readonly id: string
  readonly parent_id: string | null
  readonly created_at: string
  /** The first segment with WAL of its own; null until its WAL is kept. */
  readonly first_segment: string | null
  /** Whether the WAL before is in the history of its parent, or, without a parent, in the template. */
  readonly is_chained: boolean | null
  /** As of a base, for the WAL from the first segment on. */
  readonly is_cut: boolean
  /** From where and when on a store made from a template is its user's; null where that is not known. */
  readonly begins_lsn: string | null
  readonly begins_at: string | null
  /** The store that its branch had before, if a restore has exchanged it. */
  readonly previous_id: string | null
  /** Oldest first. */
  readonly bases: readonly Base[]
}

const STORE_HISTORY = sql`
  s.id, s.parent_id, s.created_at, s.first_segment, s.is_chained, s.is_cut,
  s.begins_lsn::text, s.begins_at, s.previous_id,
  (select coalesce(jsonb_agg(jsonb_build_object('number', b.number, 'started_at', b.started_at, 'made_at', b.made_at,
                                              'lsn', b.lsn, 'segment', b.segment, 'is_cut', b.is_cut)
                                              order by b.number), '[]')
     from base b where b.store_id = s.id) as bases`

/** A store and those that its data comes from, each followed by its parent. */
export function listAncestors(db: Db, storeId: string): Promise<StoreHistory[]> {
  return db.rows(sql`
    with recursive ancestor as (
      select id, parent_id, 0 as depth from store where id = ${storeId}
      union all
      select p.id, p.parent_id, a.depth + 1 from ancestor a join store p on p.id = a.parent_id)
    select ${STORE_HISTORY} from ancestor a join store s on s.id = a.id order by a.depth`)
}

/** A store whose compute runs, and how far its WAL is kept. */
export interface KeptStore {
  readonly id: string
  readonly number: number
  readonly project_id: string
  readonly pg_version: number
  /** The address of its compute. */
  readonly host: string
  readonly port: number
  readonly first_segment: string | null
  readonly is_chained: boolean | null
  readonly archived_segment: string | null
  readonly bytes: number | null
  /**
   * The segment of the base before its latest one, if clones are made of bases (reflink.ts) and the disk has room for
   * the WAL: spares of the latest one are still to be made.
   */
  readonly needed_segment: string | null
}

/** The stores of running computes on a host. */
export function listKeptStores(db: Db, hostId: string): Promise<KeptStore[]> {
  return db.rows(sql`
    select s.id, s.number, b.project_id, p.pg_version, c.address as host, c.port,
           s.first_segment, s.is_chained, s.archived_segment, s.bytes,
           case when s.is_slow and not h.disk_short then
             (select min(segment) from (
                select segment from base where store_id = s.id order by number desc limit 2) b) end as needed_segment
      from compute c join store s on s.id = c.store_id join branch b on b.store_id = s.id
      join project p on p.id = b.project_id join host h on h.id = s.host_id
     where c.host_id = ${hostId} and c.ended_at is null and s.state = 'ready' order by s.number`)
}

/**
 * Records from where on the WAL of a store is its own, and whether its past before is known.
 * @param beginsLsn from where on it is its user's, where that is now
 */
export async function setChained(
  db: Db,
  storeId: string,
  isChained: boolean,
  firstSegment?: string,
  beginsLsn?: string,
): Promise<void> {
  await db.rows(sql`
    update store set is_chained = ${isChained}, first_segment = coalesce(${firstSegment}, first_segment),
           begins_lsn = ${beginsLsn}::pg_lsn,
           begins_at = case when ${beginsLsn !== undefined} then clock_timestamp() end
     where id = ${storeId}`)
}

/** Records that the WAL of a store is archived up to the end of a segment. Returns the bytes of its history. */
export async function setArchived(db: Db, storeId: string, segment: string, bytes: number): Promise<number> {
  const row = await db.row<{ bytes: number }>(sql`
    update store set archived_segment = ${segment}, history_bytes = history_bytes + ${bytes} where id = ${storeId}
    returning history_bytes + (select coalesce(sum(bytes), 0)::int8 from base where store_id = ${storeId}) as bytes`)
  return row?.bytes ?? 0
}

/** Whether the disk of a host is almost full. */
export async function isHostShort(db: Db, hostId: string): Promise<boolean> {
  return (await db.row(sql`select from host where id = ${hostId} and disk_short`)) !== undefined
}

/**
 * Records that WAL of a store is lost: its history begins anew with its next base, and so does that of the stores whose
 * data comes from the part that is lost.
 */
export async function loseHistory(tx: Db, storeId: string, firstSegment: string): Promise<void> {
  await tx.rows(sql`delete from base where store_id = ${storeId}`)
  await tx.rows(sql`
    update store set first_segment = ${firstSegment}, is_chained = false, is_cut = false,
           archived_segment = null, history_bytes = 0, counted_history_bytes = 0
     where id = ${storeId}`)
  await tx.rows(sql`update store set is_chained = false where parent_id = ${storeId} and is_chained`)
}

/**
 * @param base.bytes the bytes that it takes beside its store
 * @returns when it was made; undefined if it is recorded already, or its store is gone
 */
export async function insertBase(
  db: Db,
  storeId: string,
  base: Omit<Base, 'made_at' | 'is_cut'> & { bytes: number },
): Promise<string | undefined> {
  const { number, started_at, lsn, segment, bytes } = base
  const row = await db.row<{ made_at: string }>(sql`
    insert into base (store_id, number, started_at, made_at, lsn, segment, bytes)
    select id, ${number}, ${started_at}::timestamptz, clock_timestamp(), ${lsn}::pg_lsn, ${segment}, ${bytes}
      from store where id = ${storeId}
    on conflict do nothing returning made_at`)
  return row?.made_at
}

/** A store whose clones take long. */
export interface SlowStore {
  readonly id: string
  readonly is_running: boolean
  /** How many clones of it were made within a day; at least one of a default branch, and if there are others. */
  readonly clones: number
  /** The number of its latest base. */
  readonly base: number | null
}

/** The stores of a host whose clones take long. */
export function listSlowStores(db: Db, hostId: string): Promise<SlowStore[]> {
  return db.rows(sql`
    select s.id, exists (select from compute c where c.store_id = s.id and c.ended_at is null) as is_running,
           greatest((b.is_default or exists (select from store c where c.parent_id = s.id))::int,
                    (select count(*)::int from store c
                      where c.parent_id = s.id and c.created_at > clock_timestamp() - interval '1 day')) as clones,
           (select max(number) from base where store_id = s.id) as base
      from store s join branch b on b.store_id = s.id
     where s.host_id = ${hostId} and s.is_slow and s.state = 'ready' order by s.number`)
}

/** The number for the next base of a store, and the time now; undefined once the store is removed. */
export function nextBase(db: Db, storeId: string): Promise<{ number: number; now: string } | undefined> {
  return db.row(sql`
    select coalesce((select max(number) from base where store_id = s.id), 0) + 1 as number, clock_timestamp() as now
      from store s where s.id = ${storeId}`)
}

/** A part of a store's history that no moment within its retention needs. */
export interface ExpiredHistory {
  readonly store_id: string
  /** The base that it begins with; null: it begins with the store's own WAL. */
  readonly base: number | null
  /** Its segments: from this one on, null for the first; and before that one, which the next base begins with. */
  readonly from_segment: string | null
  readonly before_segment: string
}

/** Which parts of histories are expired beside those older than the retention of their branch. */
interface ExpiryRule {
  /** A history of more bytes loses its oldest part, and any while the disk of its host is almost full. */
  readonly mostBytes: number
  /** Only of this store. */
  readonly storeId?: string | undefined
  /** At most so many parts. */
  readonly limit: number
}

/**
 * The expired parts of the histories of a host's stores. A part lasts from a base to the next one. It remains while
 * data of another store comes from it, and while its project makes a branch of a moment.
 */
export function listExpiredHistory(db: Db, hostId: string, rule: ExpiryRule): Promise<ExpiredHistory[]> {
  const { mostBytes, storeId, limit } = rule
  return db.rows(sql`
    select n.store_id, b.number as base, b.segment as from_segment, n.segment as before_segment
      from base n join store s on s.id = n.store_id join branch r on r.id = s.branch_id
      join project p on p.id = r.project_id join host h on h.id = s.host_id
      left join lateral (
        select number, segment from base where store_id = n.store_id and number < n.number
         order by number desc limit 1) b on true
     where s.host_id = ${hostId} and (${storeId}::text is null or s.id = ${storeId})
       and (n.made_at < clock_timestamp()
              - make_interval(secs => coalesce(r.history_retention_seconds, p.history_retention_seconds))
            or ((h.disk_short or s.history_bytes + (select sum(bytes) from base where store_id = s.id) > ${mostBytes})
                and not exists (select from base o where o.store_id = s.id and o.number < b.number)))
       and (b.number is not null or s.is_chained)
       and not exists (
         select from operation o
          where o.project_id = p.id and o.finished_at is null and o.action = 'create_branch' and o.input ? 'moment')
       and not exists (
         select from store c
          where c.parent_id = s.id and c.is_chained and substr(c.first_segment, 9) <= substr(n.segment, 9)
            and substr(c.first_segment, 9) >= coalesce(substr(b.segment, 9), ''))
     order by n.made_at limit ${limit}`)
}

/** Forgets a part of a store's history whose files are removed. An earlier part that is left is cut. */
export async function forgetHistory(db: Db, part: ExpiredHistory, freedBytes: number): Promise<void> {
  await db.rows(sql`
    with earlier as (
      update base set is_cut = true
       where store_id = ${part.store_id}
         and number = (select max(number) from base where store_id = ${part.store_id} and number < ${part.base})
      returning 1)
    update store set is_cut = is_cut or (is_chained and ${part.base !== null} and not exists (select from earlier))
     where id = ${part.store_id}`)
  await db.rows(sql`delete from base where store_id = ${part.store_id} and number = ${part.base}`)
  await db.rows(sql`
    update store s set history_bytes = greatest(0, history_bytes - ${freedBytes}),
           is_chained = is_chained and ${part.base !== null},
           counted_history_bytes = greatest(0, history_bytes - ${freedBytes})
             + (select coalesce(sum(bytes), 0)::int8 from base where store_id = s.id)
     where id = ${part.store_id}`)
}
