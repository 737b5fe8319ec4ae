import { HISTORY_SLOT, KEEP_WAL_SQL } from '../postgres/wal_slot.ts'
import { lsnText, segmentPosition } from '../postgres/wal.ts'
import type { AdminSession } from './session.ts'

/** The slot keeps WAL. A user with REPLICATION can make a logical one of the same name. */
const IS_KEPT = `
  slot_name = '${HISTORY_SLOT}' and slot_type = 'physical' and restart_lsn is not null and wal_status <> 'lost'`

/**
 * The segment from which on a compute keeps its WAL; undefined without a slot that does: it is absent, or Postgres
 * has given it up (`max_slot_wal_keep_size`).
 */
export async function keptSegment(session: AdminSession): Promise<string | undefined> {
  const [slot] = await session.query<{ segment: string }>(`
    select pg_walfile_name(restart_lsn) as segment from pg_replication_slots
     where ${IS_KEPT}`)
  return slot?.segment
}

/** Makes a compute keep its WAL from now on. Returns the segment from which on it does. */
export async function keepWal(session: AdminSession): Promise<string> {
  await session.query(`
    select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '${HISTORY_SLOT}'`)
  await session.query(KEEP_WAL_SQL)
  const segment = await keptSegment(session)
  if (segment === undefined) throw new Error('Postgres keeps no WAL')
  return segment
}

/**
 * Keeps no WAL of before, which the next stop removes: it has values that were removed or masked since. Returns the
 * segment from which on WAL is kept.
 */
export async function dropEarlierWal(session: AdminSession): Promise<string> {
  await session.query('select pg_switch_wal()')
  // A slot keeps WAL from the last checkpoint on.
  await session.query('checkpoint')
  return keepWal(session)
}

/** Lets Postgres remove the WAL before a segment. Returns false without a slot that keeps the rest. */
export async function releaseWal(session: AdminSession, segment: string): Promise<boolean> {
  const end = lsnText(segmentPosition(segment))
  const released = await session.query(
    `select pg_replication_slot_advance(slot_name, greatest(restart_lsn, $1::pg_lsn)) from pg_replication_slots
      where ${IS_KEPT}`,
    [end],
  )
  return released.length > 0
}

/** Up to where a compute has written its WAL. */
export async function readLsn(session: AdminSession): Promise<string> {
  const [row] = await session.query<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')
  return row?.lsn ?? '0/0'
}
