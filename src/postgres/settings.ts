import { MIB_PER_CU } from '../size.ts'
import { PREWARM, STATEMENT_STATISTICS } from './extensions.ts'

/** The sizes between which a server may be resized while it runs, in CU. */
export interface SizeRange {
  readonly minCu: number
  readonly maxCu: number
}

/** The sizes of a server, and its user's settings. */
export interface ServerSize extends SizeRange {
  readonly pgSettings: Readonly<Record<string, string>>
  /** Whether transactions refuse writes unless they begin with READ WRITE. */
  readonly refusesWrites?: boolean
}

/** The abilities of a server and its filesystem. */
interface ServerAbilities {
  /** The filesystem of the data directory has reflinks. */
  readonly clonesFiles: boolean
  /** The server has the library of the extension pg_stat_statements. */
  readonly countsStatements: boolean
  /** It notes which blocks its buffers hold, and its next start may read them ahead (prewarm.ts). */
  readonly prewarms: boolean
  /** Files of WAL that are needed no more are written again, and keep values that were masked until then. */
  readonly recyclesWal: boolean
}

/**
 * Statistics of statements for all databases, 2 ms of a start of 30. Few statements are kept, since each takes shared
 * memory. Commands of roles are left out: their texts may hold a password, which other roles could read.
 */
const STATEMENT_SETTINGS = {
  'pg_stat_statements.max': '1000',
  'pg_stat_statements.track_utility': 'off',
}

/** The smallest lower size, in CU, from which on reading ahead helps (docs/decisions/0012-prewarm.md). */
const PREWARM_CU = 1

/** Whether computes of this size note the blocks in their buffers. */
export const isPrewarmed = ({ minCu }: SizeRange): boolean => minCu >= PREWARM_CU

/** For a run that serves no client: it neither reads blocks ahead nor replaces the note of those that do. */
export const WITHOUT_PREWARM = `${PREWARM}.autoprewarm = off\n`

/** Access rules of a compute: Unix socket only, SCRAM only, and Neap's own database for Neap's own roles only. */
export const HBA = `# TYPE DATABASE    USER              METHOD
local  all,replication neap_admin        scram-sha-256
local  neap            neap_login_reader scram-sha-256
local  all             neap_login_reader reject
local  neap            all               reject
local  all,replication all               scram-sha-256
`

/** The maximum number of processes of a compute's server: one per session, and room for its own. */
export const processesFor = (spec: SizeRange): number => maxConnections(spec) + 200

const maxConnections = ({ maxCu }: SizeRange): number => Math.max(500, Math.floor((maxCu * MIB_PER_CU) / 16))

/**
 * The configuration of a compute for its size. The user's settings override all others except those of `enforced` and
 * those on Postgres' command line.
 */
export function configFor(
  spec: ServerSize,
  pgVersion: number,
  { clonesFiles, countsStatements, prewarms, recyclesWal }: ServerAbilities,
): string {
  const settings = {
    ...fixedSettings(pgVersion),
    // CREATE DATABASE … STRATEGY file_copy shares the blocks of its template then.
    ...(pgVersion >= 18 && clonesFiles && { file_copy_method: 'clone' }),
    ...sizeSettings(spec, pgVersion),
    shared_preload_libraries: [countsStatements && STATEMENT_STATISTICS, prewarms && PREWARM].filter(Boolean).join(),
    ...(countsStatements && STATEMENT_SETTINGS),
    ...(!recyclesWal && { wal_recycle: 'off' }),
    ...spec.pgSettings,
    ...enforced(spec),
  }
  return Object.entries(settings).map(settingLine).join('')
}

/** Settings that no setting of an endpoint overrides. */
const enforced = ({ refusesWrites }: ServerSize): Record<string, string> => ({
  // A statement in the log may hold a password.
  log_min_duration_statement: '-1',
  ...(refusesWrites && { default_transaction_read_only: 'on' }),
})

function settingLine([name, value]: [string, string]): string {
  if (!/^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/i.test(name)) throw new Error(`"${name}" is not the name of a setting`)
  // eslint-disable-next-line no-control-regex -- a line break would begin a setting of its own
  if (/[\0-\x1f]/.test(value)) throw new Error(`the value of ${name} has a control character`)
  return `${name} = '${value.replaceAll("'", "''").replaceAll('\\', '\\\\')}'\n`
}

function fixedSettings(pgVersion: number): Record<string, string> {
  return {
    // Enough for logical replication too, so that enabling it needs no restart.
    wal_level: 'logical',
    password_encryption: 'scram-sha-256',
    ssl: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    lc_messages: 'C',
    datestyle: 'iso, mdy',
    // Statements, parameters and rows never reach the log: they may hold secrets.
    log_line_prefix: '%m [%p] %q%u@%d ',
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
    log_parameter_max_length: '0',
    log_parameter_max_length_on_error: '0',
    log_statement: 'none',
    log_checkpoints: 'off',
    // One slot for each branch being copied from a running compute and one for its history, besides the users' own.
    max_replication_slots: '65',
    // A slot that its reader has abandoned does not fill the disk. A copy's own slot never needs as much.
    max_slot_wal_keep_size: '10GB',
    superuser_reserved_connections: '10',
    min_wal_size: '32MB',
    max_wal_size: '1GB',
    // These pools are sized per connection: at 500 connections Postgres' defaults cost a start several milliseconds.
    max_locks_per_transaction: '32',
    max_pred_locks_per_transaction: '16',
    ...(pgVersion >= 18 ? { io_method: 'worker' } : {}),
  }
}

/**
 * The settings that follow from the size (docs/sizes.md has the table). Those that cost memory and cannot be changed
 * while Postgres runs follow from the lower limit, those that only allow use from the upper one.
 */
function sizeSettings({ minCu, maxCu }: SizeRange, pgVersion: number): Record<string, string> {
  const megabytes = (value: number, least: number, most: number) =>
    `${Math.round(Math.min(most, Math.max(least, value)))}MB`
  const [leastMib, mostMib] = [minCu * MIB_PER_CU, maxCu * MIB_PER_CU]
  const cores = Math.ceil(maxCu)
  const parallel = String(Math.min(4, Math.floor(maxCu / 2)))
  return {
    max_connections: String(maxConnections({ minCu, maxCu })),
    // An eighth, not the usual quarter: each buffer adds to the start time (8 ms per GB), and idle page cache can be
    // reclaimed.
    shared_buffers: megabytes(leastMib / 8, 32, 4096),
    effective_cache_size: megabytes(mostMib * 0.75, 64, Infinity),
    work_mem: megabytes(leastMib / 512, 4, 64),
    maintenance_work_mem: megabytes(leastMib / 16, 32, 2048),
    max_worker_processes: String(8 + cores),
    max_parallel_workers: String(cores),
    max_parallel_workers_per_gather: parallel,
    max_parallel_maintenance_workers: parallel,
    autovacuum_max_workers: String(Math.min(3, cores)),
    ...(pgVersion >= 18 ? { io_workers: String(Math.min(8, cores)) } : {}),
  }
}
