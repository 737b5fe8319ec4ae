import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { embeddedCatalogUrl } from '../../src/catalog/embedded.ts'
import { loadOrCreateSecrets } from '../../src/secrets/secrets.ts'
import type { Neap } from '../neap.ts'
import { outsidePids, postmastersOf, until } from '../processes.ts'

/** The tables of user resources, each with the columns that change without a request. */
const RESOURCES: Record<string, readonly string[]> = {
  account: [],
  project: [],
  branch: ['logical_bytes'],
  endpoint: ['idle_check_at', 'idle_counters', 'idle_since', 'last_active'],
  snapshot: [],
  snapshot_schedule: [],
  masking: [],
  role: [],
  database: [],
  api_key: ['last_used_at', 'last_used_from'],
  operation: [],
  webhook: [],
  webhook_delivery: [],
  passwordless_login: [],
  person: [],
  person_password: [],
  passkey: [],
  person_identity: [],
  membership: [],
  invitation: [],
}

export interface AuditRow {
  readonly action: string
  readonly status: number
  readonly account_id: string | null
  readonly project_id: string | null
  readonly request_id: string
  readonly subject: string
  /** The transaction that wrote it. */
  readonly xmin: string
}

/** A session in the catalog that observes the effects of requests. */
export interface State {
  /** A digest of all rows of all resources: it changes when any of them does. */
  digest(): Promise<string>
  /** Audit rows with a number greater than `after`. */
  auditSince(after: number): Promise<AuditRow[]>
  lastAudit(): Promise<number>
  /** The number of resource rows of which this transaction wrote the current version. */
  writtenBy(xmin: string): Promise<number>
  query<R extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<R[]>
  close(): Promise<void>
}

export async function openState(neap: Neap): Promise<State> {
  const secrets = await loadOrCreateSecrets(join(neap.ready.data_dir, 'secret.key'))
  const url = embeddedCatalogUrl(join(neap.ready.data_dir, 'run'), secrets.catalogPasswords()[0])
  const client = new pg.Client({ connectionString: url, application_name: 'the state that a test looks at' })
  await client.connect()
  const tables = Object.entries(RESOURCES)
  const hashes = tables.map(([table, but]) => {
    const left = but.map((column) => ` - '${column}'`).join('')
    const hash = `hashtextextended((to_jsonb(t)${left})::text, 0)`
    return `(select count(*) || ':' || coalesce(sum(${hash}), 0) from ${table} t)`
  })
  const written = tables.map(([table]) => `(select count(*) from ${table} where xmin::text = $1)`)

  async function query<R extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<R[]> {
    return (await client.query<R>(sql, values)).rows
  }
  return {
    query,
    async digest() {
      const [row] = await query<{ digest: string }>(`select concat_ws(' ', ${hashes.join(', ')}) as digest`)
      return row?.digest ?? ''
    },
    auditSince: (after) => query('select xmin::text, * from audit where id > $1 order by id', [after]),
    async lastAudit() {
      const [row] = await query<{ last: string }>('select coalesce(max(id), 0) as last from audit')
      return Number(row?.last)
    },
    async writtenBy(xmin) {
      const [row] = await query<{ count: string }>(`select ${written.join(' + ')} as count`, [xmin])
      return Number(row?.count)
    },
    close: () => client.end(),
  }
}

/**
 * Returns true when the catalog is idle: no session has unread input, which would make its process runnable, and no
 * session is active.
 */
async function isQuiet(neap: Neap, state: State): Promise<boolean> {
  const sessions = `from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`
  const pids = (await state.query<{ pid: number }>(`select pid ${sessions}`)).map(({ pid }) => pid)
  const catalog = postmastersOf(neap.ready.data_dir).find(({ directory }) => directory.endsWith('/catalog/pgdata'))
  const outside = outsidePids(catalog?.pid ?? 0)
  if (!pids.every((pid) => stateOf(`/proc/${outside.get(pid)}`) === 'S')) return false
  return (await state.query(`select ${sessions} and state <> 'idle'`)).length === 0
}

/** Freezes the worker outside of transactions while `work` runs, so that only requests change data. */
export async function withoutWorker<T>(neap: Neap, state: State, work: () => Promise<T>): Promise<T> {
  const pid = neap.part('worker')
  if (pid === undefined) throw new Error('no worker runs')
  await until('the worker stands still', async () => {
    process.kill(pid, 'SIGSTOP')
    // A thread that is running at that moment stops slightly later.
    const threads = readdirSync(`/proc/${pid}/task`)
    if (threads.every((thread) => stateOf(`/proc/${pid}/task/${thread}`) === 'T') && (await isQuiet(neap, state)))
      return true
    process.kill(pid, 'SIGCONT')
    return false
  })
  try {
    return await work()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

/** The state letter of a process or thread. Returns undefined when it has ended. Source: proc_pid_stat(5). */
function stateOf(directory: string): string | undefined {
  try {
    return /^\d+ \(.*\) (\S)/s.exec(readFileSync(`${directory}/stat`, 'utf8'))?.[1]
  } catch {
    return undefined
  }
}
