/**
 * The replication slot that keeps the WAL of a compute until it is archived (Postgres manual, "Replication Slots").
 * Clones have no slot: each makes its own at its first start, before any client can write.
 */
export const HISTORY_SLOT = 'neap_history'

/** Makes the slot unless it is there. It keeps all WAL from the last checkpoint on. */
export const KEEP_WAL_SQL = `
  select pg_create_physical_replication_slot('${HISTORY_SLOT}', true)
   where not exists (select from pg_replication_slots where slot_name = '${HISTORY_SLOT}')`
