import type { Db } from '../catalog/catalog.ts'
import { wrongPgSettings } from '../catalog/pg_setting.ts'
import { AppError } from '../errors.ts'

/**
 * The Postgres settings that users may set. An allow list: the other settings name files, commands, libraries,
 * addresses or authentication methods, or would break Neap's guarantees (durability, the size), and each version of
 * Postgres adds settings.
 */
export const ALLOWED: ReadonlySet<string> = new Set(
  `array_nulls autovacuum_analyze_scale_factor autovacuum_analyze_threshold autovacuum_max_workers autovacuum_naptime
  autovacuum_vacuum_cost_delay autovacuum_vacuum_cost_limit autovacuum_vacuum_insert_scale_factor
  autovacuum_vacuum_insert_threshold autovacuum_vacuum_scale_factor autovacuum_vacuum_threshold bytea_output
  checkpoint_completion_target checkpoint_timeout client_min_messages constraint_exclusion cpu_index_tuple_cost
  cpu_operator_cost cpu_tuple_cost cursor_tuple_fraction datestyle deadlock_timeout default_statistics_target
  default_transaction_deferrable default_transaction_isolation default_transaction_read_only effective_cache_size
  effective_io_concurrency enable_async_append enable_bitmapscan enable_gathermerge enable_hashagg enable_hashjoin
  enable_incremental_sort enable_indexonlyscan enable_indexscan enable_material enable_memoize enable_mergejoin
  enable_nestloop enable_parallel_append enable_parallel_hash enable_partition_pruning enable_partitionwise_aggregate
  enable_partitionwise_join enable_seqscan enable_sort enable_tidscan extra_float_digits from_collapse_limit geqo
  geqo_threshold gin_fuzzy_search_limit gin_pending_list_limit hash_mem_multiplier idle_in_transaction_session_timeout
  idle_session_timeout intervalstyle jit jit_above_cost join_collapse_limit lock_timeout log_autovacuum_min_duration
  log_lock_waits logical_decoding_work_mem maintenance_io_concurrency maintenance_work_mem
  max_parallel_maintenance_workers max_parallel_workers max_parallel_workers_per_gather max_wal_size min_wal_size
  parallel_leader_participation parallel_setup_cost parallel_tuple_cost plan_cache_mode quote_all_identifiers
  random_page_cost row_security search_path seq_page_cost statement_timeout synchronize_seqscans tcp_keepalives_count
  tcp_keepalives_idle tcp_keepalives_interval temp_buffers timezone track_activity_query_size track_functions
  track_io_timing transaction_timeout vacuum_cost_delay vacuum_cost_limit vacuum_freeze_min_age vacuum_freeze_table_age
  wal_compression work_mem xmlbinary xmloption`.split(/\s+/),
)

/**
 * Checks that the settings are allowed and that the catalog's Postgres accepts their values.
 * Errors: PG_SETTINGS_NOT_ALLOWED, which names each disallowed setting or each invalid value.
 */
export async function requirePgSettings(db: Db, settings: Record<string, string> = {}): Promise<void> {
  const names = Object.keys(settings)
  if (names.length === 0) return
  const unknown = names.filter((name) => !ALLOWED.has(name.toLowerCase()))
  if (unknown.length > 0)
    throw new AppError(
      'PG_SETTINGS_NOT_ALLOWED',
      `These Postgres settings are unknown or may not be set: ${unknown.join(', ')}.`,
    )
  const wrong = await wrongPgSettings(db, settings)
  if (wrong.length > 0)
    throw new AppError('PG_SETTINGS_NOT_ALLOWED', `Postgres does not take these values: ${wrong.join(', ')}.`)
}
