import { setImmediate } from 'node:timers/promises'
import pg from 'pg'
import { withTimeout } from '../race.ts'
import { createSharedRuns } from '../shared_runs.ts'
import { batchStatements } from './batch.ts'
import { isAway, acceptsSessions, unavailable } from './away.ts'
import { type EmbeddedLogin, loginConfig } from './embedded.ts'
import { createListener, type CatalogListener, type Told } from './listener.ts'
import { createFailureDetector } from './failure_detector.ts'
import { createPoolGrowth, KEPT_SESSIONS } from './pool_growth.ts'
import type { SqlStatement } from './sql.ts'
import { createTurns } from './turns.ts'

/** A target of queries: the pool, or one transaction. */
export interface Db {
  rows<R>(statement: SqlStatement): Promise<R[]>
  row<R>(statement: SqlStatement): Promise<R | undefined>
}

/** One transaction. */
export interface Transaction extends Db {
  /**
   * Sends the final statement of the transaction, whose result `work` does not need. COMMIT follows without waiting,
   * which saves a round trip.
   */
  last(statement: SqlStatement): void
}

/** A transaction that a client waits for, beside others that lock the same rows. */
export interface ContendedWork {
  /** The project whose row it locks. */
  readonly project?: string | undefined
  /** The API request: operations that it queues record it for the log. */
  readonly requestId?: string | undefined
}

/** The catalog: the only state that Neap's processes share. */
export interface Catalog extends Db, Pick<CatalogListener, 'listen' | 'hears' | 'rename'> {
  /**
   * Runs `work` in one transaction and rolls back if it throws.
   * @param contended Those of a project begin one after the other. The commit of an API request releases locks before
   * it is durable, and this resolves once it is: requests that queue on a row share a write to the disk. A transaction
   * that sees it sooner is durable only after it, and the first claim of what it has queued waits for the disk.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>, contended?: ContendedWork): Promise<T>
  /** A dedicated session, for locks that outlive a transaction. Ends with `end()`. */
  session(): Promise<Db & { end(): Promise<void>; onLost(tell: () => void): void }>
  /** The connections of the pool, the idle ones among them, and the number of waiting callers. */
  connections(): { readonly total: number; readonly idle: number; readonly waiting: number }
  close(): Promise<void>
}

const TIMESTAMPTZ = 1184
const INT8 = 20

/**
 * Times stay text, as RFC 3339 in UTC with all six digits: a Date would lose the microseconds that paging relies on.
 */
const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === TIMESTAMPTZ) return rfc3339
    if (oid === INT8) return Number
    return pg.types.getTypeParser(oid, format) as (text: string) => unknown
  },
}

function rfc3339(text: string): string {
  const [whole = '', fraction = ''] = text.slice(0, -3).split('.')
  return `${whole.replace(' ', 'T')}.${fraction.padEnd(6, '0')}Z`
}

/** Settings that Neap relies on, which override the server's defaults. */
const SESSION_SETTINGS = {
  timezone: 'UTC',
  datestyle: 'ISO',
  search_path: 'public',
  default_transaction_isolation: 'read\\ committed',
  statement_timeout: '30s',
  // Plans are kept, and the first are made while tables are small: they are to use an index then, too.
  enable_seqscan: 'off',
}

/** A process that freezes within a transaction loses its session and locks after so many seconds. */
const FROZEN_SECONDS = 15

/**
 * Opens the catalog.
 * @param target the embedded catalog, or a Postgres URL for direct sessions (no transaction pooler: Neap uses LISTEN
 * and session locks)
 * @param size maximum number of connections
 */
export function openCatalog(
  target: string | EmbeddedLogin,
  size: number,
  onError: (error: Error) => void,
  frozenSeconds = FROZEN_SECONDS,
): Catalog {
  const settings = { ...SESSION_SETTINGS, idle_in_transaction_session_timeout: `${frozenSeconds}s` }
  const login = createLogin(target, Object.entries(settings))
  const config: pg.ClientConfig = {
    ...login.config,
    application_name: 'neap',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: 10_000,
    types,
  }
  const pool = new pg.Pool({ ...config, pipeline: true, max: size, min: Math.min(KEPT_SESSIONS, size) })
  pool.on('error', onError)
  const growth = createPoolGrowth(pool, size)
  const listener = createListener(newSession, onError)
  const detector = createFailureDetector(() => acceptsSessions(config))
  const takeTurn = createTurns()
  const share = createSharedRuns<void>()

  async function checkOut(): Promise<pg.PoolClient> {
    let asked: Promise<pg.PoolClient> | undefined
    try {
      // An idle connection is available at once, even if the catalog does not answer.
      if (pool.idleCount > pool.waitingCount + growth.waiting()) return await pool.connect()
      return await detector.during(() => (asked = growth.turn().then(() => login.attempt(() => pool.connect()))))
    } catch (error) {
      // Release a connection that arrives after the caller gave up.
      asked?.then(
        (late) => late.release(),
        () => {},
      )
      return unavailable(error as Error)
    }
  }

  /** Queries on one connection. Calls `broke` when the connection is lost. */
  function on(client: pg.ClientBase, broke: (error: Error) => void = () => {}): Db {
    async function rows<R>(statement: SqlStatement): Promise<R[]> {
      try {
        batchStatements(client)
        return (await detector.during(() => client.query(statement))).rows as R[]
      } catch (error) {
        if (isAway(error as Error)) broke(error as Error)
        return unavailable(error as Error)
      }
    }
    return { rows, row: async (statement) => (await rows<never>(statement))[0] }
  }

  /** Lends `work` a connection, which is discarded if it breaks meanwhile. */
  async function lend<T>(work: (db: Db, loan: Loan) => Promise<T>): Promise<T> {
    const client = await checkOut()
    let broken: Error | undefined
    const breaks = (error: Error): void => void (broken = error)
    // A session may end between statements. The next statement then fails; an unhandled error event would end the
    // process.
    client.on('error', breaks)
    try {
      return await work(on(client, breaks), { isBroken: () => broken !== undefined, breaks })
    } finally {
      client.off('error', breaks)
      client.release(broken)
    }
  }

  const rows = <R>(statement: SqlStatement): Promise<R[]> => lend((db) => db.rows<R>(statement))

  /** Resolves once all that was committed before is durable. */
  async function flush(): Promise<void> {
    // The session that the last transaction left is for the next one, which takes it meanwhile.
    await setImmediate()
    await rows(FLUSH)
  }

  function newSession(): Promise<pg.Client> {
    return login.attempt(async () => {
      const client = new pg.Client(config)
      client.on('error', onError)
      await client.connect()
      return client
    })
  }

  async function awaitSession(): Promise<pg.Client> {
    let asked: Promise<pg.Client> | undefined
    try {
      return await detector.during(() => (asked = newSession()))
    } catch (error) {
      // Close a session that opens after the caller gave up.
      asked?.then(
        (client) => client.end(),
        () => {},
      )
      return unavailable(error as Error)
    }
  }

  return {
    rows,
    row: async (statement) => (await rows<never>(statement))[0],
    async transaction(work, contended) {
      const endTurn = contended?.project === undefined ? () => {} : await takeTurn(contended.project)
      let result
      try {
        result = await lend(async (tx, { isBroken, breaks }) => {
          // BEGIN is pipelined with the first statement to save a round trip. It fails only if the connection does, and
          // then both fail.
          const begun = tx.rows(contended?.requestId === undefined ? BEGIN : beginFor(contended.requestId))
          begun.catch(() => {})
          let last: Promise<unknown> | undefined
          try {
            const worked = await work({
              ...tx,
              last(statement) {
                last = tx.rows(statement)
                // Work that throws after it leaves its failure unawaited.
                last.catch(() => {})
              },
            })
            await Promise.all([begun, last, tx.rows(COMMIT)])
            return worked
          } catch (error) {
            if (!isBroken()) await tx.rows(ROLLBACK).catch(breaks)
            throw error
          }
        })
      } finally {
        // The next one takes the session that this one leaves, which has prepared the statements that it needs.
        endTurn()
      }
      if (contended?.requestId !== undefined) await share('flush', flush)
      return result
    },
    async session() {
      const client = await awaitSession()
      return {
        ...on(client),
        end: () => withTimeout(client.end(), PATIENCE_MS, undefined),
        onLost: (tell) => client.once('end', tell),
      }
    },
    listen: (channel, told) => listenDuring(channel, told).catch(unavailable),
    hears: () => listener.hears(),
    rename: (to) => listener.rename(to),
    connections: () => ({
      total: pool.totalCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount + growth.waiting(),
    }),
    async close() {
      detector.close()
      await withTimeout(Promise.all([listener.close(), pool.end()]), PATIENCE_MS, undefined)
    },
  }

  async function listenDuring(channel: string, told: Told): Promise<() => void> {
    let asked: Promise<() => void> | undefined
    try {
      return await detector.during(() => (asked = listener.listen(channel, told)))
    } catch (error) {
      asked?.then(
        (unlisten) => unlisten(),
        () => {},
      )
      throw error
    }
  }
}

interface Loan {
  readonly isBroken: () => boolean
  readonly breaks: (error: Error) => void
}

/**
 * The statements of transactions find rows by their keys: any values have the same plan. Without this each session
 * would plan each of them six times, which costs a new one more than all else that it does.
 */
const BEGIN_TEXT = 'begin; set local plan_cache_mode = force_generic_plan'
const BEGIN = plain(BEGIN_TEXT)
const COMMIT = plain('commit')
const ROLLBACK = plain('rollback')

/**
 * Ends once all that was committed before is durable: a record of its own in the WAL, committed as the catalog's
 * settings demand. A commit that waits for the disk itself holds its row locks meanwhile, and the lock that lets those
 * with a NOTIFY commit only one after the other.
 */
const FLUSH = plain("select pg_logical_emit_message(true, 'neap', '')")

/** BEGIN with the request's id, in one message to save a round trip. */
const beginFor = (requestId: string): SqlStatement =>
  plain(`${BEGIN_TEXT}; set local neap.request_id = ${pg.escapeLiteral(requestId)}; set local synchronous_commit = off`)

/** A statement that is not prepared. */
function plain(text: string): SqlStatement {
  return { name: '', text, values: [] }
}

/** A frozen server does not acknowledge the end of a session. */
const PATIENCE_MS = 2_000

const isWrongPassword = (error: unknown): boolean => (error as { code?: unknown }).code === '28P01'

/** The login of sessions. `attempt` retries `connect` with each possible password. */
function createLogin(target: string | EmbeddedLogin, settings: [string, string][]) {
  let turn = 0
  async function attempt<T>(connect: () => Promise<T>): Promise<T> {
    try {
      return await tryEach(connect)
    } catch (error) {
      if (!isWrongPassword(error) || !(await hasOthers())) throw error
      return tryEach(connect)
    }
  }

  /** Whether a reload brings passwords that were not tried. */
  async function hasOthers(): Promise<boolean> {
    if (typeof target === 'string' || !target.reload) return false
    const tried = target.passwords().join()
    await target.reload()
    turn = 0
    return target.passwords().join() !== tried
  }

  async function tryEach<T>(connect: () => Promise<T>): Promise<T> {
    for (let failures = 1; ; failures++) {
      const tried = turn
      try {
        return await connect()
      } catch (error) {
        // Count passwords only after a failure: deriving them is slow, and most attempts succeed at once.
        if (!isWrongPassword(error) || failures > others()) throw error
        if (turn === tried) turn++
      }
    }
  }

  /**
   * Number of retries. With several passwords the first is tried twice, since the role may have been changed to it
   * meanwhile.
   */
  function others(): number {
    const count = typeof target === 'string' ? 1 : target.passwords().length
    return count > 1 ? count : 0
  }
  if (typeof target === 'string') return { config: withOptions(target, settings), attempt }
  const options = settings.map(([name, value]) => `-c ${name}=${value}`).join(' ')
  const password = (): string => {
    const all = target.passwords()
    return all[turn % all.length] ?? ''
  }
  return { config: { ...loginConfig(target, password), options }, attempt }
}

/** The URL, with these settings after its own `options` so that they win; the driver alone would ignore them. */
function withOptions(url: string, settings: [string, string][]): pg.ClientConfig {
  const [target = '', query] = url.split('?', 2)
  const parameters = new URLSearchParams(query)
  const given = parameters.get('options') ?? ''
  parameters.delete('options')
  const ours = settings.map(([name, value]) => `-c ${name}=${value}`).join(' ')
  return { connectionString: `${target}?${parameters.toString()}`, options: `${given} ${ours}`.trim() }
}
