import { appendFileSync, writeFileSync } from 'node:fs'
import { connect as connectTcp, type Socket } from 'node:net'
import { join } from 'node:path'
import type { PartName } from '../neap.ts'
import { kill, outsidePids, postmastersOf } from '../processes.ts'
import type { Random } from '../random.ts'
import { enter } from './data.ts'
import { HOSTILE_TENANT, hostileTenant } from './hostile.ts'
import { crowd, deletedInUse, hungSubscriber, stuckCopies } from './neighbours.ts'
import { foreignWorker, longRecovery, restoredCatalog } from './operators.ts'
import { canBackUp, drill, lostMachine } from './repository.ts'
import { catalogOf, DRAIN_MS, healed, pause, pgdataOf, postmasterOf, request, standing, type World } from './world.ts'

/** A fault. It records the kinds of work that it may break, and resolves when its effects are over. */
interface Fault {
  readonly name: string
  readonly run: (world: World, random: Random) => Promise<void>
  /** Whether it is possible on this machine. */
  readonly can?: (world: World) => boolean
}

const part = (name: PartName) => async (world: World, random: Random) => {
  const breaks = { api: ['requests'], worker: [], proxy: ['sessions', 'connects'] } as const
  const over = world.history.disrupt(`kill -9 of ${name}`, breaks[name])
  // Often one of several only: the others continue.
  const all = world.neap.parts(name)
  await kill(...(random.chance(0.5) ? all : all.slice(0, 1)))
  await healed(world)
  over()
}

/** Freezes a part for so long that the catalog drops its sessions; its later actions are late. */
const frozen = (name: PartName, least: number, most: number) => async (world: World, random: Random) => {
  // Clients of a frozen process wait. It must not break sessions or connects.
  const over = world.history.disrupt(`${name} frozen`, name === 'api' ? ['requests'] : [])
  const all = world.neap.parts(name)
  const still = random.chance(0.5) ? all : all.slice(0, 1)
  for (const pid of still) signal(pid, 'SIGSTOP')
  await pause(random.between(least, most))
  for (const pid of still) signal(pid, 'SIGCONT')
  await healed(world)
  over()
}

/**
 * Terminates proxies, which are replaced: sessions end at the latest after the drain timeout, and no new connection is
 * refused.
 */
async function drained(world: World, random: Random): Promise<void> {
  const over = world.history.disrupt('proxies drained', ['sessions'])
  const all = world.neap.parts('proxy')
  const leaving = random.chance(0.5) ? all : all.slice(0, 1)
  for (const pid of leaving) signal(pid, 'SIGTERM')
  // Connections that have waited since then for a slow wake are closed at the end of the drain.
  await pause(DRAIN_MS - 1_000)
  const late = world.history.disrupt('the end of a drain', ['connects'])
  while (leaving.some((pid) => world.neap.parts('proxy').includes(pid))) await pause(100)
  late()
  over()
}

/** Kills a postmaster and leaves files as a power failure might. */
const compute = (leave: (directory: string) => void) => async (world: World, random: Random) => {
  const spot = random.pick(standing(world))
  const pid = postmasterOf(world, spot)
  if (pid === undefined) return
  const over = world.history.disrupt(`kill -9 of the compute of ${spot.name}`, ['sessions', 'connects'], spot.branch_id)
  await kill(pid)
  leave(pgdataOf(world, spot))
  const client = await enter(world, spot, () => {})
  await client?.end().catch(() => {})
  over()
}

async function backend(world: World, random: Random): Promise<void> {
  const spot = random.pick(standing(world))
  const over = world.history.disrupt(`kill -9 of a backend of ${spot.name}`, ['sessions', 'connects'], spot.branch_id)
  const client = await enter(world, spot, () => {})
  const found = await client?.query<{ pid: number }>('select pg_backend_pid() as pid').catch(() => undefined)
  const postmaster = postmasterOf(world, spot)
  const pid = postmaster === undefined ? undefined : outsidePids(postmaster).get(found?.rows[0]?.pid ?? 0)
  if (pid !== undefined) signal(pid, 'SIGKILL')
  await client?.end().catch(() => {})
  const next = await enter(world, spot, () => {})
  await next?.end().catch(() => {})
  over()
}

async function catalog(world: World): Promise<void> {
  const over = world.history.disrupt('kill -9 of the catalog', ['requests', 'connects'])
  const pid = catalogOf(world)
  if (pid !== undefined) await kill(pid)
  await healed(world)
  over()
}

async function controlPlane(world: World): Promise<void> {
  const over = world.history.disrupt('kill -9 of the control plane', ['sessions', 'connects', 'requests'])
  await world.restart(() => world.neap.kill())
  over()
}

async function everything(world: World): Promise<void> {
  const over = world.history.disrupt('kill -9 of everything', ['sessions', 'connects', 'requests'])
  await world.restart(async () => {
    await world.neap.kill()
    await kill(...postmastersOf(world.dataDir).map(({ pid }) => pid))
  })
  over()
}

/** Many clients connect at once to a compute that is idle or being suspended. */
async function burst(world: World, random: Random): Promise<void> {
  const spot = random.pick(standing(world))
  const asked = world.history.disrupt(`a burst at ${spot.name}`, ['sessions'], spot.branch_id)
  const suspended = request(world, 'POST', `/projects/${spot.project_id}/endpoints/${spot.endpoint_id}/suspend`)
  await pause(random.between(0, 300))
  await Promise.all(
    Array.from({ length: random.pick([20, 200]) }, async () => {
      const client = await enter(world, spot, () => {})
      await client?.query('select 1').catch(() => {})
      await client?.end().catch(() => {})
    }),
  )
  await suspended
  asked()
}

/** Startups that never finish or break off, and random bytes: no other client is affected. */
async function nonsense(world: World, random: Random): Promise<void> {
  world.history.note('nonsense at proxy and API')
  const { proxy_port, api_url } = world.neap.ready
  const sockets = Array.from({ length: 40 }, (_, number) => {
    const socket = connectTcp(number % 4 === 0 ? Number(new URL(api_url).port) : proxy_port, '127.0.0.1')
    socket.on('error', () => {})
    socket.on('connect', () => socket.write(someBytes(random, number)))
    return socket
  })
  await pause(random.between(500, 3_000))
  for (const socket of sockets) hangUp(socket, random)
}

function someBytes(random: Random, number: number): Buffer {
  const bytes = Buffer.from(Array.from({ length: random.between(1, 600) }, () => random.between(0, 255)))
  // The beginning of an unfinished startup, of a TLS hello, of an HTTP request.
  const beginnings = [
    [0, 0, 2, 0, 0, 3, 0, 0],
    [0, 0, 0, 8, 4, 210, 22, 47],
    [22, 3, 1, 2, 0],
    [...Buffer.from('POST /api/v2/projects HTTP/1.1\r\ncontent-length: 100\r\n\r\n{')],
    [],
  ]
  return Buffer.concat([Buffer.from(beginnings[number % beginnings.length] ?? []), bytes])
}

const hangUp = (socket: Socket, random: Random) => (random.chance(0.5) ? socket.destroy() : socket.end())

/** Fills the disk for a while. Operations that need space fail or wait; Postgres may stop when it cannot write WAL. */
async function diskFull(world: World, random: Random): Promise<void> {
  const over = world.history.disrupt('the disk is full', ['sessions', 'connects', 'requests'])
  const ballast = join(world.dataDir, 'ballast')
  const megabyte = Buffer.alloc(2 ** 20, 1)
  writeFileSync(ballast, '')
  const until = performance.now() + random.between(1_000, 5_000)
  while (performance.now() < until) {
    try {
      for (let count = 0; count < 64; count++) appendFileSync(ballast, megabyte)
    } catch {
      await pause(50)
    }
  }
  writeFileSync(ballast, '')
  await healed(world)
  for (const spot of standing(world)) await (await enter(world, spot, () => {}))?.end().catch(() => {})
  over()
}

/** Blocks all writes for a while: writers wait, and no session is lost. */
async function freezeDisk(world: World, random: Random): Promise<void> {
  const over = world.history.disrupt('the disk stands still', ['requests'])
  await world.disk.freeze?.()
  await pause(random.between(500, 6_000))
  world.disk.thaw()
  await healed(world)
  over()
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended meanwhile.
  }
}

const leftovers: readonly ((directory: string) => void)[] = [
  () => {},
  (directory) => writeFileSync(join(directory, 'postmaster.pid'), 'no number\n'),
  (directory) => writeFileSync(join(directory, 'postmaster.pid'), ''),
  (directory) => writeFileSync(join(directory, 'postmaster.pid'), `${process.pid}\n${directory}\n1\n5432\n\n\n`),
]

export const FAULTS: readonly Fault[] = [
  { name: 'kill -9 of api', run: part('api') },
  { name: 'kill -9 of worker', run: part('worker') },
  { name: 'kill -9 of proxies', run: part('proxy') },
  { name: 'proxies drained', run: drained },
  { name: 'kill -9 of catalog', run: catalog },
  { name: 'kill -9 of a compute', run: (world, random) => compute(random.pick(leftovers))(world, random) },
  { name: 'kill -9 of a backend', run: backend },
  { name: 'kill -9 of the control plane', run: controlPlane },
  { name: 'kill -9 of everything', run: everything },
  { name: 'worker frozen and thawed', run: frozen('worker', 1_000, 22_000) },
  { name: 'api frozen and thawed', run: frozen('api', 500, 4_000) },
  { name: 'proxies frozen and thawed', run: frozen('proxy', 200, 5_000) },
  { name: 'burst at a sleeping endpoint', run: burst },
  { name: 'nonsense on the wire', run: nonsense },
  { name: HOSTILE_TENANT, run: hostileTenant },
  { name: 'copies that stand still', run: stuckCopies },
  { name: '32 branches at once', run: crowd },
  { name: 'a project deleted in use', run: deletedInUse },
  { name: 'a subscriber that reads nothing', run: hungSubscriber },
  { name: 'a long recovery', run: longRecovery },
  { name: 'a restored catalog', run: restoredCatalog },
  { name: 'a worker of another installation', run: foreignWorker },
  { name: 'a lost machine', run: lostMachine, can: canBackUp },
  { name: 'a drill', run: drill, can: canBackUp },
  { name: 'disk full', run: diskFull, can: ({ disk }) => disk.own },
  { name: 'disk standing still', run: freezeDisk, can: ({ disk }) => disk.freeze !== undefined },
]
