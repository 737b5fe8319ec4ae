import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect as tcp, Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { connect } from '../clients.ts'
import { controlPlane, envOf, leaveNothing, type Neap, neapRun, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/* Two proxies share one listening socket: when one stops accepting, the other takes over, and the port never closes. */

/** Low enough for a test to exhaust. */
const OPEN_FILES = 300

const dataDir = newDataDir()
let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({
    dataDir,
    env: { NEAP_PROXIES: '2', NEAP_PROXY_DRAIN: '8', NEAP_PROXY_METRICS_PORT: '0' },
    through: ['sh', '-c', `ulimit -n ${OPEN_FILES} && exec "$0" "$@"`],
  })
  place = await firstPlace(neap)
  await both()
})

after(async () => {
  await neap?.end()
  await leaveNothing(dataDir)
})

const DRAINS = /neap proxy(-2)? drains after SIGTERM; starting a successor/g
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

async function metricsPorts(): Promise<number[]> {
  const { stdout } = await neapRun(['status', '--json'], envOf(dataDir))
  return (JSON.parse(stdout) as { proxy_metrics_ports: number[] }).proxy_metrics_ports
}

/** The value of a metric of the proxy with that port. Returns undefined when the proxy or the metric is absent. */
async function valueOf(port: number, name: string): Promise<number | undefined> {
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => undefined)
  const value = new RegExp(`^${name}(?:\\{.*\\})? (\\d+)`, 'm').exec((await answer?.text()) ?? '')?.[1]
  return value === undefined ? undefined : Number(value)
}

/** Waits until exactly two proxies exist and are ready. */
async function both(): Promise<readonly [number, number]> {
  const ports = await metricsPorts()
  await until('two proxies that are ready', async () => {
    const ready = await Promise.all(
      ports.map((port) => fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined)),
    )
    return ready.every((answer) => answer?.status === 200) && neap.parts('proxy').length === 2
  })
  return neap.parts('proxy') as [number, number]
}

const select = async (client: pg.Client): Promise<void> =>
  assert.deepEqual((await client.query<{ n: number }>('select 1 as n')).rows, [{ n: 1 }])

/** The client ports of a process's connections. The process must not open or close connections meanwhile. */
function clientPortsOf(pid: number): Set<number> {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).map((fd) => /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]),
  )
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)
  const portOf = (address = ''): number => parseInt(address.split(':')[1] ?? '', 16)
  return new Set(
    lines.flatMap((line) => {
      const [, local, remote, , , , , , , inode] = line.trim().split(/\s+/)
      return inodes.has(inode) && portOf(local) === neap.ready.proxy_port ? [portOf(remote)] : []
    }),
  )
}

test('both proxies serve, and each exports its own metrics', async () => {
  const ports = await metricsPorts()
  assert.equal(new Set(ports).size, 2)
  const clients: pg.Client[] = []
  await until('both have sessions', async () => {
    clients.push(await connect(neap, place.uri))
    const sessions = await Promise.all(ports.map((port) => valueOf(port, 'neap_proxy_sessions')))
    assert.equal(
      sessions.reduce((sum: number, count) => sum + (count ?? 0), 0),
      clients.length,
    )
    return sessions.every((count) => (count ?? 0) > 0)
  })
  await Promise.all(clients.map(select))
  await Promise.all(clients.map((client) => client.end()))
  assert.ok(readFileSync(join(dataDir, 'parts', 'proxy-2.log'), 'utf8').includes('"msg":"ready"'))
})

test('a proxy drains on SIGTERM until its timeout, while another serves', async () => {
  const before_drain = await both()
  const ends: string[] = []
  const [busy, idle, endless] = (await Promise.all(
    ['busy', 'idle', 'endless'].map((name) =>
      connect(neap, place.uri, { lost: (error) => ends.push(`${name} ${(error as pg.DatabaseError).code}`) }),
    ),
  )) as [pg.Client, pg.Client, pg.Client]
  await Promise.all([busy, idle, endless].map(select))
  await idle.query('create table told (at timestamptz)')
  const waiting = busy
    .query('do $$ begin while not exists (select from told) loop perform pg_sleep(0.01); end loop; end $$')
    .then(() => ends.push('busy is done'))
  const never = endless.query('select pg_sleep(600)').catch((error: unknown) => (error as pg.DatabaseError).code)
  for (const pid of before_drain) process.kill(pid, 'SIGTERM')
  await until('both drain', () => neap.stderr().match(DRAINS)?.length === 2)
  const next = await connect(neap, place.uri)
  await select(next)
  await select(idle)
  assert.equal(ends.length, 0)
  await next.query('insert into told values (now())')
  await waiting
  await select(busy)
  await busy.end()
  assert.equal(await never, '57P01')
  await until('the ends of the others', () => ends.includes('idle 57P01'))
  assert.equal(ends[0], 'busy is done')
  const after_drain = await both()
  assert.ok(after_drain.every((pid) => !before_drain.includes(pid)))
  await select(next)
  await next.end()
})

test('clients of a frozen proxy are served by another, even if both were frozen and killed', async () => {
  const [one, other] = await both()
  process.kill(one, 'SIGSTOP')
  const clients = await Promise.all(Array.from({ length: 20 }, () => connect(neap, place.uri)))
  await Promise.all(clients.map(select))
  process.kill(other, 'SIGSTOP')
  const sockets = Array.from({ length: 20 }, () => new Socket())
  const late = sockets.map((socket) => connect(neap, place.uri, { stream: () => socket }))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  await kill(one, other)
  for (const client of await Promise.all(late)) {
    await select(client)
    await client.end()
  }
  await Promise.all(clients.map((client) => client.end().catch(() => {})))
})

test('kill -9 of a proxy cuts off only its own connections', async () => {
  const [victim] = await both()
  const made: number[] = []
  const failed: { port: number; error: unknown }[] = []
  let over = false
  const loops = Array.from({ length: 8 }, async () => {
    while (!over) {
      const socket = new Socket()
      let port = 0
      socket.once('connect', () => (port = socket.localPort ?? 0))
      try {
        const client = await connect(neap, place.uri, { stream: () => socket })
        await select(client)
        await client.end()
        made.push(port)
      } catch (error) {
        failed.push({ port, error })
      }
    }
  })
  const more = async (count: number): Promise<void> => {
    const enough = made.length + count
    await until('more connections', () => made.length >= enough || failed.length > 100)
  }
  await more(50)
  process.kill(victim, 'SIGSTOP')
  const cutOff = clientPortsOf(victim)
  await kill(victim)
  await more(100)
  over = true
  await Promise.all(loops)
  assert.deepEqual(
    failed.filter(({ port }) => !cutOff.has(port)),
    [],
  )
})

test('a proxy without descriptors leaves new connections to others', async () => {
  const [frozen] = await both()
  process.kill(frozen, 'SIGSTOP')
  const sockets = Array.from({ length: OPEN_FILES + 50 }, () => {
    const socket = tcp(neap.ready.proxy_port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(SSL_REQUEST)
    return socket
  })
  let answered = 0
  const ends = sockets.map(
    (socket) =>
      new Promise<string>((resolve) => {
        socket.once('data', (bytes: Buffer) => {
          answered += 1
          resolve(bytes.toString('latin1', 0, 1))
        })
        socket.once('close', () => resolve('closed'))
      }),
  )
  await until('the one that runs is full', () => answered > OPEN_FILES / 2)
  process.kill(frozen, 'SIGCONT')
  assert.deepEqual([...new Set(await Promise.all(ends))], ['S'])
  for (const socket of sockets) socket.destroy()
})

test('a single proxy is not ready after SIGTERM, and ends at once at the second', async () => {
  const child = spawnNeap(['proxy', '--proxy-port', '0'], envOf(dataDir, { NEAP_PROXY_METRICS_PORT: '0' }))
  const ended = once(child, 'exit')
  const { port, metrics_port } = await new Promise<{ port: number; metrics_port: number }>((resolve, reject) => {
    const lines = createInterface({ input: child.stderr as NonNullable<typeof child.stderr> })
    lines.on('line', (line) => {
      const said = JSON.parse(line) as { msg: string; port: number; metrics_port: number }
      if (said.msg === 'ready') resolve(said)
    })
    void ended.then(() => reject(new Error('it ended')))
  })
  const client = await connect(neap, place.uri.replace(/:\d+\//, `:${port}/`))
  child.kill('SIGTERM')
  const missing = await until('it is not ready any more', async () => {
    const answer = await fetch(`http://127.0.0.1:${metrics_port}/readyz`)
    return answer.status === 503 && ((await answer.json()) as { missing: object }).missing
  })
  assert.deepEqual(missing, { proxy: 'it was told to end and takes no new connections' })
  await select(client)
  const cutOff = once(client, 'error')
  child.kill('SIGTERM')
  assert.equal(((await cutOff) as [pg.DatabaseError])[0].code, '57P01')
  assert.deepEqual(await ended, [0, null])
})

test('the next start after kill -9 of the supervisor has the port and two new proxies', async () => {
  const pair = await both()
  const socket = new Socket()
  const session = await connect(neap, place.uri, { stream: () => socket })
  const [draining, frozen] = clientPortsOf(pair[0]).has(socket.localPort ?? 0) ? pair : ([pair[1], pair[0]] as const)
  process.kill(frozen, 'SIGSTOP')
  process.kill(draining, 'SIGTERM')
  await until('a third', () => neap.parts('proxy').length === 3)
  await kill(neap.process.pid)
  await session.end().catch(() => {})
  const { proxy_port } = neap.ready
  neap = await startNeap({ dataDir, env: { NEAP_PROXIES: '2', NEAP_PROXY_METRICS_PORT: '0' } })
  assert.equal(neap.ready.proxy_port, proxy_port)
  const pids = await both()
  assert.ok(!pids.includes(frozen) && !pids.includes(draining))
  const client = await connect(neap, place.uri)
  await select(client)
  // The supervisor exits immediately, despite open sessions and a long drain timeout.
  process.kill(pids[0], 'SIGTERM')
  assert.equal(await neap.end(), 0)
  await client.end().catch(() => {})
  assert.deepEqual(controlPlane(dataDir), [])
})
