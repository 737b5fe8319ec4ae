/** Replays a trace at a real endpoint: jobs are sent at their times, whether or not earlier ones have ended. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Cgroups } from '../../src/compute/process/cgroup.ts'
import type { UseSample } from '../../src/scaling/policy.ts'
import { sampleBetween, type UseReading } from '../../src/scaling/sample.ts'
import type { Job, Trace } from './traces.ts'

const SAMPLE_MS = 250

export interface Replay {
  /** The milliseconds that each job took that ended. */
  readonly tookMs: readonly number[]
  /** Each quarter of a second: the kernel's measurements, and the size. */
  readonly samples: readonly (UseSample & { readonly cu: number })[]
}

export interface Replayed {
  readonly clients: readonly pg.Client[]
  readonly groups: Cgroups
  readonly computeId: string
  /** Rows of generate_series whose count uses a CPU for a second. */
  readonly rowsPerSecond: number
  /** Reads the size, in CU. */
  readonly size: () => Promise<number>
}

/** A part of a trace, with the demand for CPUs multiplied. */
export interface Excerpt {
  readonly from: number
  readonly seconds: number
  readonly factor: number
}

export async function replay(
  { clients, groups, computeId, rowsPerSecond, size }: Replayed,
  { jobs }: Trace,
  { from, seconds, factor }: Excerpt,
): Promise<Replay> {
  const free = [...clients]
  const queue: Job[] = []
  const tookMs: number[] = []
  const samples: (UseSample & { cu: number })[] = []
  const begun = performance.now()
  const passed = () => (performance.now() - begun) / 1000 + from

  function begin(): void {
    while (queue.length > 0 && free.length > 0) {
      const client = free.pop() as pg.Client
      const job = queue.shift() as Job
      const ended = () => {
        free.push(client)
        begin()
      }
      client.query(statementOf(job, clients.length, factor, rowsPerSecond)).then(() => {
        tookMs.push((passed() - job.at) * 1000)
        ended()
        // Those that run at the end of the excerpt are cancelled.
      }, ended)
    }
  }

  async function observe(): Promise<void> {
    let before: UseReading | undefined
    while (passed() < from + seconds) {
      const cu = await size()
      const reading = { ...groups.use(computeId), atMs: performance.now(), demand: groups.demand(computeId) }
      if (before) samples.push({ ...sampleBetween(before, reading), cu })
      before = reading
      await sleep(SAMPLE_MS)
    }
  }

  const observed = observe()
  for (const job of jobs.filter(({ at }) => at >= from && at < from + seconds)) {
    await sleep(Math.max(0, (job.at - passed()) * 1000))
    queue.push(job)
    begin()
  }
  await observed
  queue.length = 0
  return { tookMs, samples }
}

/** What makes Postgres wait for a lock or a disk, and then use a CPU, as a job does. */
function statementOf({ cpu, disk, lock }: Job, sessions: number, factor: number, rowsPerSecond: number): string {
  const count = `select count(*) from generate_series(1, ${Math.ceil(cpu * factor * rowsPerSecond)})`
  // Each holds the lock that the others wait for: all of them together take as long as one job waits.
  if (lock !== undefined) return `select pg_advisory_xact_lock(1), pg_sleep(${lock / sessions}), (${count})`
  // Each commit waits for the disk.
  if (disk !== undefined)
    return `do $$ begin for i in 1..5 loop insert into flushed values (i); commit; end loop; end $$`
  return count
}
