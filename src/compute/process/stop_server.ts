import { type EffectOutcome, fenceText, runEffect } from '../../host/effect.ts'
import type { Fence, Progress } from '../../host/fence.ts'
import { waitStopped } from '../../host/server_lock.ts'

/** The times of the steps of a stop, in seconds (docs/stops.md; stop.pl takes the steps). */
export interface StopSeconds {
  /** From the fast shutdown until walsenders are terminated. */
  readonly walsenders: number
  /** From the fast shutdown to the immediate one, while a session remains. */
  readonly sessions: number
  /** The same while no session remains and the shutdown checkpoint is written. */
  readonly checkpoint: number
  /** From the immediate shutdown until all processes are killed. */
  readonly kill: number
}

export const STOP_SECONDS: StopSeconds = {
  // A client that confirms within a second is not cut off; replication slots keep the place of the others.
  walsenders: 1,
  // Sessions roll back and end within milliseconds. Postgres has no time-out for code that ignores interrupts.
  sessions: 20,
  // At max_wal_size (1 GB) and 10 MB/s a checkpoint takes 100 s, and replay instead of it takes as long.
  checkpoint: 300,
  // Twice the time after which Postgres itself kills its processes in an immediate shutdown (5 s).
  kill: 10,
}

/** How a server is stopped. */
export interface StopOptions {
  readonly fence?: Fence | undefined
  readonly seconds?: StopSeconds | undefined
  /** The directory of its sockets, to be removed once it has stopped. */
  readonly socketDir?: string
}

/** How long one call waits for a stop: the step that called it is repeated. */
const STOP_MS = 1_500
/** Interval between two looks at which step is due. */
const STEP_SECONDS = 1

/**
 * Stops a server by the steps of docs/stops.md, of which only the first is needed as a rule (fast shutdown: sessions
 * end with 57P01, a checkpoint is written); `pending` when that takes longer than 1.5 seconds.
 * @throws FencedError when a newer attempt acted on this home
 */
export async function stopServer(home: string, options: StopOptions = {}): Promise<Progress> {
  const deadline = performance.now() + STOP_MS
  while (performance.now() < deadline) {
    const outcome = await urgeToStop(home, options)
    if (outcome === 'done' || outcome === 'gone') return 'done'
    if ((await waitStopped(home, STEP_SECONDS)) === 'done' && options.socketDir === undefined) return 'done'
  }
  return 'pending'
}

/** Takes the due step of a stop under the home's effect lock, only against this home's own server. */
export function urgeToStop(home: string, options: StopOptions = {}): Promise<EffectOutcome> {
  const { fence, seconds = STOP_SECONDS, socketDir = '' } = options
  const { walsenders, sessions, checkpoint, kill } = seconds
  return runEffect(['stop', home, fenceText(fence), socketDir, ...[walsenders, sessions, checkpoint, kill].map(String)])
}
