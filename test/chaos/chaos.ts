import { query } from '../clients.ts'
import { kill, processesOf } from '../processes.ts'
import { firstPlace } from '../project.ts'
import { randomOf } from '../random.ts'
import { type Actor, otherAccount } from '../surface/account.ts'
import { type Checks, startChecks } from './checks.ts'
import { SCHEMA } from './data.ts'
import { makeDisk } from './disk.ts'
import { FAULTS } from './faults.ts'
import { finale } from './finale.ts'
import { type History, startHistory } from './history.ts'
import { ask } from './requests.ts'
import { type Latencies, startLatencies } from './latency.ts'
import { removeRepository } from './repository.ts'
import { watch } from './watch.ts'
import { healed, open, pause, type Spot, type World } from './world.ts'
import { write } from './writers.ts'

export interface ChaosOptions {
  readonly seed: number
  readonly minutes: number
  /** Excludes faults whose names match. */
  readonly without?: RegExp
  /** Called with each fault and each violation. */
  readonly say?: (line: string) => void
}

export interface Result {
  readonly faults: ReadonlyMap<string, number>
  /** Faults that are not possible on this machine, or were excluded. */
  readonly impossible: readonly string[]
  readonly checks: Checks
  readonly history: History
  readonly latencies: Latencies
}

const WRITERS = 3
const ASKERS = 2
const BETWEEN_FAULTS_MS = [500, 4_000] as const
/** The time limit for all tasks and faults to end after the load has stopped. */
const REST_MS = 300_000

/**
 * Runs a real Neap under load and faults for this many minutes, then checks all invariants at rest. Stops at the first
 * violation. The seed determines all choices.
 */
export async function chaos({ seed, minutes, without, say = () => {} }: ChaosOptions): Promise<Result> {
  const random = randomOf(seed, 'faults')
  const violated = Promise.withResolvers<void>()
  const { world, other, rest, close } = await openWorld(seed, (what) => {
    say(`VIOLATION ${what}`)
    violated.resolve()
  })
  const faults = new Map(FAULTS.map(({ name }) => [name, 0]))
  const possible = FAULTS.filter(({ name, can }) => !without?.test(name) && (can?.(world) ?? true))

  async function injectFaults(): Promise<void> {
    while (!world.stopping.aborted) {
      const fault = random.pick(possible)
      say(fault.name)
      await fault.run(world, random)
      faults.set(fault.name, (faults.get(fault.name) ?? 0) + 1)
      await pause(random.between(...BETWEEN_FAULTS_MS))
    }
  }

  async function run(): Promise<void> {
    const tasks: Promise<unknown>[] = [watch(world, other), injectFaults()]
    for (let number = 1; number <= WRITERS; number++) tasks.push(write(world, firstOf(world), `writer_${number}`))
    for (let number = 1; number <= ASKERS; number++) tasks.push(ask(world, `asked_${number}`, tasks))
    await pause(minutes * 60_000)
    rest()
    // Tasks may have started other tasks meanwhile.
    for (let ended = 0; ended < tasks.length;) {
      const begun = tasks.length
      await Promise.all(tasks.slice(ended))
      ended = begun
    }
    say('at rest')
    const secrets = [
      new URL(firstOf(world).uri).password,
      world.key,
      other.key,
      world.repository?.passphrase ?? world.key,
    ]
    await finale(world, secrets.map(decodeURIComponent))
    await world.neap.end()
  }

  const tooLong = pause(minutes * 60_000 + REST_MS).then(() =>
    world.checks.record('ended', `all has not come to rest within ${REST_MS / 1000} s`),
  )
  try {
    await Promise.race([run(), violated.promise, tooLong])
    const impossible = FAULTS.filter((each) => !possible.includes(each)).map(({ name }) => name)
    return { faults, impossible, checks: world.checks, history: world.history, latencies: world.latencies }
  } finally {
    await close()
    removeRepository(world)
  }
}

export const firstOf = ({ spots: [first] }: World): Spot => first as Spot

/** A Neap under test, with one branch that has the tables, and a second, unrelated account. */
export async function openWorld(
  seed: number,
  onViolation: (what: string) => void = () => {},
): Promise<{ world: World; other: Actor; rest: () => void; close: () => Promise<void> }> {
  const disk = makeDisk()
  const { dataDir } = disk
  const over = new AbortController()
  const history = startHistory()
  const checks = startChecks(history, ({ what }) => onViolation(what))
  async function close(): Promise<void> {
    over.abort()
    // Kills remaining processes of an aborted run. Processes that wait for a frozen disk end when it is released.
    await kill(...processesOf(dataDir).map(({ pid }) => pid)).catch(() => {})
    disk.release()
  }
  try {
    const neap = await open(dataDir)
    const place = await firstPlace(neap)
    const spot: Spot = {
      ...place,
      name: 'main',
      store: place.branch_id,
      leaving: false,
      writers: [],
      pooled: new Set(),
      children: 0,
    }
    await query(neap, spot.uri, SCHEMA)
    const world: World = {
      neap,
      key: neap.ready.api_key ?? '',
      dataDir,
      disk,
      seed,
      history,
      checks,
      latencies: startLatencies(history),
      spots: [spot],
      answered: new Map(),
      stopping: over.signal,
      held: Promise.resolve(),
      async restart(how) {
        await how()
        world.neap = await open(dataDir)
        await healed(world)
      },
    }
    return { world, other: await otherAccount(neap, 'other'), rest: () => over.abort(), close }
  } catch (error) {
    await close()
    throw error
  }
}
