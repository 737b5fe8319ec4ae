/** The WAL of the embedded catalog, kept by a replication slot until the repository has it. */
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

const SLOT = 'neap_backup'

/** Keeps the WAL from now on. Returns false if it was kept already without a gap. */
export async function beginToKeepCatalogWal(db: Db): Promise<boolean> {
  const kept = await db.row(sql`
    select from pg_replication_slots where slot_name = ${SLOT} and restart_lsn is not null and wal_status <> 'lost'`)
  if (kept) return false
  await stopKeepingCatalogWal(db)
  await db.rows(sql`select pg_create_physical_replication_slot(${SLOT}, true)`)
  return true
}

/** Lets Postgres remove the WAL before a position. */
export async function releaseCatalogWal(db: Db, lsn: string): Promise<void> {
  await db.rows(sql`
    select pg_replication_slot_advance(slot_name, greatest(restart_lsn, ${lsn}::pg_lsn))
      from pg_replication_slots where slot_name = ${SLOT}`)
}

/** Lets Postgres remove WAL that the recovery of a store, as which the catalog was restored, has it keep. */
export async function dropSlots(db: Db): Promise<void> {
  await db.rows(sql`select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active`)
}

export async function stopKeepingCatalogWal(db: Db): Promise<void> {
  await db.rows(sql`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${SLOT}`)
}
