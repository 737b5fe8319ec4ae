import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { shell, superuser } from './admin.ts'
import { connect } from './clients.ts'
import { send } from './http.ts'
import type { Neap } from './neap.ts'
import type { Place } from './project.ts'

/*
 * A hostile tenant with a project: it attacks with code in its compute, by SQL, by connections, and with its API key.
 */

export interface Tenant {
  readonly neap: Pick<Neap, 'ready'>
  readonly place: Place
  readonly key: string
}

/** How often an attack succeeded and failed, e.g. refused, or the tenant's compute was down. */
export interface Tally {
  done: number
  failed: number
}

/** Continues until `over`, regardless of the answers. */
type Attack = (tenant: Tenant, over: AbortSignal, tally: Tally) => Promise<void>

const SESSIONS = 100
const RECONNECTING = 4
const GUESSING = 8
const DERIVING = 8
const SQL_CONNECTIONS = 130
const STREAMS = 100
const BODIES = 4
const LOADS = 2
/** Delay between two connections, requests or logins of an endless attack: the clients run on the measured machine. */
const BETWEEN_MS = 20
/** Delay after an immediate refusal. */
const REFUSED_MS = 20
/** How long to wait for attacks to end before they are abandoned. */
const LATE_MS = 10_000
const PASSWORD = 'of the hostile tenant'

async function repeat(over: AbortSignal, tally: Tally, work: () => Promise<unknown>): Promise<void> {
  while (!over.aborted) {
    try {
      await work()
      tally.done++
    } catch {
      // An error caused by the end of the attack is not a failure.
      if (over.aborted) return
      tally.failed++
      await sleep(REFUSED_MS)
    }
  }
}

const beside = (many: number, work: (index: number) => Promise<void>): Promise<unknown> =>
  Promise.all(Array.from({ length: many }, (_, index) => work(index)))

const ended = (over: AbortSignal): Promise<unknown> => (over.aborted ? Promise.resolve() : once(over, 'abort'))

/** Runs a script in the compute repeatedly, as superuser, which stands in for a vulnerability in Postgres. */
const runs =
  (script: string, pauseMs: number): Attack =>
  async ({ neap, place }, over, tally) => {
    let session: pg.Client | undefined
    over.addEventListener('abort', () => void session?.end().catch(() => {}))
    await repeat(over, tally, async () => {
      try {
        session ??= await superuser(neap as Neap, place)
        await session.query(`set statement_timeout = '10s'`)
        await shell(session, script)
      } catch (error) {
        // The session was killed; `canceled` is harmless.
        await session?.end().catch(() => {})
        session = undefined
        throw error
      }
      await sleep(pauseMs)
    })
    await session?.end().catch(() => {})
  }

/** Sessions that stay open. */
const hold: Attack = async ({ neap, place }, over, tally) => {
  await beside(SESSIONS, async () => {
    const client = await connect(neap, place.uri)
    tally.done++
    await ended(over)
    await client.end()
  })
}

/** New sessions, as fast as they are admitted. */
const reconnect: Attack = async ({ neap, place }, over, tally) => {
  await beside(RECONNECTING, () =>
    repeat(over, tally, async () => {
      await (await connect(neap, place.uri)).end()
      await sleep(BETWEEN_MS)
    }),
  )
}

/** Wrong passwords, as fast as they are checked. */
const guess: Attack = async ({ neap, place }, over, tally) => {
  const wrong = new URL(place.uri)
  wrong.password = 'guess'
  await beside(GUESSING, () =>
    repeat(over, tally, async () => {
      await (await connect(neap, wrong.href)).end()
    }),
  )
}

/** Queries that use a core each. */
const load: Attack = async ({ neap, place }, over, tally) => {
  await beside(LOADS, async () => {
    const client = await connect(neap, place.uri)
    const work = client.query('select sum(sqrt(n)) from generate_series(1, 1e9) n').catch(() => {})
    tally.done++
    await ended(over)
    await client.end()
    await work
  })
}

/** Cleartext logins as a role with the maximum iterations in its verifier: the proxy derives a key for each login. */
const derive: Attack = async ({ neap, place }, over, tally) => {
  const session = await connect(neap, place.uri)
  await session.query('set scram_iterations = 100000')
  const roles = (await session.query(`select from pg_roles where rolname = 'costly'`)).rows
  await session.query(`${roles.length > 0 ? 'alter' : 'create'} role costly login password '${PASSWORD}'`)
  await session.end()
  const url = new URL(place.uri)
  await beside(DERIVING, () =>
    repeat(over, tally, async () => {
      const client = new pg.Client({
        host: '127.0.0.1',
        port: Number(url.port),
        user: 'costly',
        password: `endpoint=${place.endpoint_id};${PASSWORD}`,
        database: url.pathname.slice(1),
        ssl: { rejectUnauthorized: false },
      })
      client.on('error', () => {})
      try {
        await client.connect()
      } finally {
        await client.end()
      }
      await sleep(BETWEEN_MS)
    }),
  )
}

/** Connections for SQL over HTTP that are idle except for a query every two seconds. */
const idleSql: Attack = async ({ place }, over, tally) => {
  const agent = new Agent({ keepAlive: true, maxSockets: SQL_CONNECTIONS, rejectUnauthorized: false })
  await beside(SQL_CONNECTIONS, () =>
    repeat(over, tally, async () => {
      await askSql(agent, place, 'select pg_sleep(0.1)', over)
      tally.done++
      await sleep(2_000, undefined, { signal: over })
    }),
  )
  agent.destroy()
}

/** Sends a query over HTTP to an endpoint. Errors: the status was not 200. */
export async function askSql(
  agent: Agent,
  { uri, endpoint_id }: Place,
  text: string,
  over?: AbortSignal,
): Promise<void> {
  const url = new URL(uri)
  const named = new URL(uri)
  // The host name of the URI selects the endpoint; it need not resolve.
  named.host = `${endpoint_id}.local.localhost`
  named.search = ''
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const headers = { 'neon-connection-string': named.href }
  const options = { agent, host: '127.0.0.1', port: url.port, path: '/sql', method: 'POST', headers, signal: over }
  const asked = request(options, (response) => {
    response.resume().on('error', reject)
    response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`${response.statusCode}`))))
  })
  asked.on('error', reject)
  asked.end(JSON.stringify({ query: text, params: [] }))
  await promise
}

/** The maximum number of allowed addresses of a project, all of which are compared at each connection. */
const allowIps: Attack = async ({ neap, place, key }, _over, tally) => {
  const ips = Array.from({ length: 99 }, (_, index) => `10.0.0.${index}`)
  const body = { project: { settings: { allowed_ips: { ips: [...ips, '127.0.0.1'] } } } }
  const { status } = await send(neap as Neap, 'PATCH', `/projects/${place.project_id}`, { key, body })
  tally[status === 200 ? 'done' : 'failed']++
}

/** Streams of operations, and changes that cause operations. */
const follow: Attack = async ({ neap, place, key }, over, tally) => {
  const { api_url } = neap.ready
  const headers = { authorization: `Bearer ${key}` }
  const streams = beside(STREAMS, () =>
    repeat(over, tally, async () => {
      const path = `${api_url}/projects/${place.project_id}/operations/stream`
      const { status, body } = await fetch(path, { headers, signal: over })
      if (status === 200) tally.done++
      for await (const _ of body as ReadableStream<Uint8Array>);
    }),
  )
  const roles = `/projects/${place.project_id}/branches/${place.branch_id}/roles`
  let made = 0
  await repeat(over, tally, async () => {
    const name = `followed_${made++ % 4}`
    await send(neap as Neap, 'POST', roles, { key, body: { role: { name } } })
    await send(neap as Neap, 'DELETE', `${roles}/${name}`, { key })
  })
  await streams
}

/** Bodies of the maximum length, with the maximum number of keys and depth. */
const flood: Attack = async ({ neap, place, key }, over, tally) => {
  const project = `/projects/${place.project_id}`
  const wide = Object.fromEntries(Array.from({ length: 1_900 }, (_, index) => [`k${index}`, 0]))
  const deep = `{"branch":${'['.repeat(2_000)}${']'.repeat(2_000)}}`
  await beside(BODIES, () =>
    repeat(over, tally, async () => {
      await send(neap as Neap, 'PATCH', project, { key, body: { project: wide } })
      const { status } = await send(neap as Neap, 'POST', `${project}/branches`, { key, body: deep })
      if (status === 429) throw new Error('refused')
      await sleep(BETWEEN_MS)
    }),
  )
}

export const ATTACKS = {
  forks: runs('i=0; while [ $i -lt 2000 ]; do sleep 3 & i=$((i+1)); done', 1_000),
  fills: runs(
    ['dd if=/dev/zero of=/tmp/full bs=1M count=100', 'dd if=/dev/zero of=/dev/shm/full bs=1M count=100']
      .concat('rm -f /tmp/full /dev/shm/full')
      .join('; '),
    200,
  ),
  kills: runs('for pid in $(seq 200 400); do kill -9 $pid; done; kill -9 -1', 1_000),
  links: runs(
    'for directory in $(dirname $PWD/../../*); do ln -sfn / $directory/link; done; ln -sfn /etc/passwd postmaster.opts',
    200,
  ),
  ports: runs('for port in 5432 7070 7071; do bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"; done', 200),
  sessions: hold,
  connects: reconnect,
  guesses: guess,
  derivations: derive,
  'idle /sql': idleSql,
  'allowed ips': allowIps,
  streams: follow,
  bodies: flood,
  load,
} satisfies Record<string, Attack>

export type AttackName = keyof typeof ATTACKS

/** Runs these attacks concurrently until `over`. */
export async function attack(
  tenant: Tenant,
  names: readonly AttackName[],
  over: AbortSignal,
): Promise<Partial<Record<AttackName, Tally>>> {
  const tallies: Partial<Record<AttackName, Tally>> = {}
  const left = new Set(names)
  const all = Promise.all(
    names.map((name) =>
      ATTACKS[name](tenant, over, (tallies[name] = { done: 0, failed: 0 }))
        .catch(() => {})
        .then(() => left.delete(name)),
    ),
  )
  // A request to a killed process may never be answered.
  const late = ended(over).then(() => sleep(LATE_MS, undefined, { ref: false }))
  await Promise.race([all, late])
  if (left.size > 0) process.stderr.write(`These attacks did not end: ${[...left].join(', ')}\n`)
  return tallies
}

const PROGRAM = fileURLToPath(new URL('hostile_process.ts', import.meta.url))

/** A hostile tenant in a separate process, so that it slows other clients only through resources they share. */
export function startHostile({ neap, place, key }: Tenant) {
  const child = fork(PROGRAM, [JSON.stringify(neap.ready), JSON.stringify(place), key], { detached: true })
  return {
    begin: (names: readonly AttackName[]) => child.send({ begin: names }),
    /** Ends the attacks and returns their tallies. */
    async end(): Promise<Partial<Record<AttackName, Tally>>> {
      const over = once(child, 'message')
      child.send('end')
      return (await over)[0] as Partial<Record<AttackName, Tally>>
    },
    /** Kills the process, even if requests are outstanding. */
    async stop(): Promise<void> {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
  }
}
