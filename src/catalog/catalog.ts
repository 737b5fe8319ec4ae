import pg from 'pg'
import { AppError } from '../errors.ts'
import { createListener, type Listener } from './listener.ts'
import type { Statement } from './sql.ts'

/** What a query can be sent to: the pool, or one transaction. */
export interface Db {
  rows<R>(statement: Statement): Promise<R[]>
  row<R>(statement: Statement): Promise<R | undefined>
}

/** The catalog: the only state that Neap's processes share. */
export interface Catalog extends Db, Pick<Listener, 'listen'> {
  /** Runs `work` in one transaction; what it throws rolls back. */
  transaction<T>(work: (tx: Db) => Promise<T>): Promise<T>
  /** A session of its own, for locks that outlive a transaction. Ends with `end()`. */
  session(): Promise<Db & { end(): Promise<void>; onLost(tell: () => void): void }>
  close(): Promise<void>
}

const TIMESTAMPTZ = 1184
const INT8 = 20

/** Times stay text, as RFC 3339 in UTC with all six digits: a Date would lose the microseconds on which paging rests. */
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

/** What Neap rests on, whatever the catalog's server has as its own defaults. */
const SESSION_SETTINGS = {
  timezone: 'UTC',
  datestyle: 'ISO',
  search_path: 'public',
  default_transaction_isolation: 'read\\ committed',
  statement_timeout: '30s',
}

/** A process that is frozen in the middle of a transaction loses its session, and all it has locked, after so many seconds. */
const FROZEN_SECONDS = 15

/**
 * Opens the catalog.
 * @param url a Postgres URL of a direct session (no transaction pooler between: Neap listens and takes session locks)
 * @param size how many connections at most
 */
export function openCatalog(
  url: string,
  size: number,
  onError: (error: Error) => void,
  frozenSeconds = FROZEN_SECONDS,
): Catalog {
  const settings = { ...SESSION_SETTINGS, idle_in_transaction_session_timeout: `${frozenSeconds}s` }
  const config: pg.PoolConfig = {
    ...withOptions(url, Object.entries(settings)),
    application_name: 'neap',
    keepAlive: true,
    types,
  }
  const pool = new pg.Pool({ ...config, max: size, connectionTimeoutMillis: 10_000 })
  pool.on('error', onError)
  const listener = createListener(() => new pg.Client(config), onError)

  return {
    rows: (statement) => run(pool, statement),
    row: async (statement) => (await run<never>(pool, statement))[0],
    async transaction(work) {
      const client = await pool.connect().catch(unavailable)
      let broken: Error | undefined
      const lost = (error: Error) => (broken = error)
      // A session may end while nothing is asked of it. The next statement fails then; unheard, the event would end the process.
      client.on('error', lost)
      try {
        await client.query('begin').catch(unavailable)
        const result = await work(on(client))
        await client.query('commit').catch(unavailable)
        return result
      } catch (error) {
        await client.query('rollback').catch((failure: unknown) => (broken = failure as Error))
        throw error
      } finally {
        client.off('error', lost)
        client.release(broken)
      }
    },
    async session() {
      const client = new pg.Client(config)
      client.on('error', onError)
      await client.connect().catch(unavailable)
      return { ...on(client), end: () => client.end(), onLost: (tell) => client.once('end', tell) }
    },
    listen: (channel, told) => listener.listen(channel, told).catch(unavailable),
    async close() {
      await listener.close()
      await pool.end()
    },
  }
}

/** The URL with these settings after its own `options`, so that ours win; the driver alone would drop ours. */
function withOptions(url: string, settings: [string, string][]): pg.ClientConfig {
  const [target = '', query] = url.split('?', 2)
  const parameters = new URLSearchParams(query)
  const given = parameters.get('options') ?? ''
  parameters.delete('options')
  const ours = settings.map(([name, value]) => `-c ${name}=${value}`).join(' ')
  return { connectionString: `${target}?${parameters.toString()}`, options: `${given} ${ours}`.trim() }
}

function on(client: pg.ClientBase): Db {
  return {
    rows: (statement) => run(client, statement),
    row: async (statement) => (await run<never>(client, statement))[0],
  }
}

async function run<R>(target: pg.ClientBase | pg.Pool, statement: Statement): Promise<R[]> {
  const { rows } = await target.query(statement).catch(unavailable)
  return rows as R[]
}

/** SQLSTATE classes and socket errors that mean "the catalog is away", as apart from "the statement is wrong". */
const AWAY = /^(08...|57P0[123]|53300|ECONN.*|ENOENT|EPIPE|ETIMEDOUT|EHOSTUNREACH)$/
/** What the driver says without a code when a connection is gone or cannot be had. */
const LOST = /^Connection terminated|is not queryable$|timeout exceeded when trying to connect/

function unavailable(error: Error & { code?: string }): never {
  if (LOST.test(error.message) || AWAY.test(error.code ?? ''))
    throw new AppError('UNAVAILABLE', undefined, { cause: error })
  throw error
}
