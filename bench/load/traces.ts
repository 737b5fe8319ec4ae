/** Loads of a database, as jobs that arrive whether or not earlier ones have ended (open loop), by a fixed seed. */
import { randomFrom } from '../../test/random.ts'

export interface Job {
  /** Seconds since the beginning. */
  readonly at: number
  /** Seconds of one CPU. */
  readonly cpu: number
  /** Seconds of waiting for a disk before. */
  readonly disk?: number
  /** Seconds of waiting for a lock before. */
  readonly lock?: number
}

export interface Trace {
  readonly name: string
  readonly about: string
  readonly seconds: number
  /** Of the client: later jobs wait until one of them is free. */
  readonly sessions: number
  readonly jobs: readonly Job[]
}

const SECONDS = 1200
const SESSIONS = 16
/** Of a query, on average. */
const CPU = 0.02

export const TRACES: readonly Trace[] = [
  trace('step', 'from 0.3 to 3.5 CPUs for ten minutes', (at) => (at >= 120 && at < 720 ? 3.5 : 0.3)),
  trace('spike', 'ten seconds of 5 CPUs every five minutes', (at) => (at % 300 >= 100 && at % 300 < 110 ? 5 : 0.2)),
  trace('sawtooth', 'from 0.2 to 5 CPUs in four minutes, again and again', (at) => 0.2 + (4.8 * (at % 240)) / 240),
  trace('ramp', 'from 0.2 to 6 CPUs in twenty minutes', (at) => 0.2 + (5.8 * at) / SECONDS),
  cron(),
  waiting('disk', 'sixteen sessions that read from a slow disk', { disk: 0.05 }, 16),
  waiting('lock', 'thirty sessions that wait for a lock', { lock: 2 }, 30),
  longQuery(),
]

/** Jobs that need so many CPUs at a time, arriving at random. */
function trace(name: string, about: string, cpus: (at: number) => number): Trace {
  const random = randomFrom(7).next
  const jobs: Job[] = []
  for (let at = 0; at < SECONDS;) {
    at += -Math.log(1 - random()) * (CPU / cpus(at))
    jobs.push({ at, cpu: CPU * (0.5 + random()) })
  }
  return { name, about, seconds: SECONDS, sessions: SESSIONS, jobs }
}

/** Eight reports at each full minute. */
function cron(): Trace {
  const { jobs } = trace('', '', () => 0.2)
  const reports = Array.from({ length: SECONDS / 60 }, (_, minute) =>
    Array.from({ length: 8 }, () => ({ at: minute * 60 + 5, cpu: 1.5 })),
  ).flat()
  const about = 'eight queries of 1.5 s of CPU at each full minute'
  return { name: 'cron', about, seconds: SECONDS, sessions: SESSIONS, jobs: sorted([...jobs, ...reports]) }
}

/** So many sessions that wait for something else than a CPU most of the time. */
function waiting(name: string, about: string, wait: Pick<Job, 'disk' | 'lock'>, sessions: number): Trace {
  const each = (wait.disk ?? 0) + (wait.lock ?? 0)
  const jobs = Array.from({ length: sessions }, (_, session) =>
    Array.from({ length: Math.floor(SECONDS / each) }, (__, turn) => ({
      at: turn * each + (session / sessions) * each,
      cpu: 0.01 * each,
      ...wait,
    })),
  ).flat()
  return { name, about, seconds: SECONDS, sessions: 2 * sessions, jobs: sorted(jobs) }
}

function longQuery(): Trace {
  const about = 'nothing but one query of ten minutes'
  return { name: 'long', about, seconds: SECONDS, sessions: SESSIONS, jobs: [{ at: 60, cpu: 600 }] }
}

function sorted(jobs: Job[]): Job[] {
  return jobs.toSorted((x, y) => x.at - y.at)
}
