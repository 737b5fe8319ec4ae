/**
 * Clones of data directories where files share blocks: an effect clones the files (clone.pl), and this process asks a
 * running parent for the end of its WAL.
 */
import { existsSync, readdirSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { fenceText, outcomeOf, type EffectOutcome } from '../host/effect.ts'
import type { Progress } from '../host/fence.ts'
import { SERVER_PORT } from '../host/layout.ts'
import { forkEffect } from '../host/spawner.ts'
import { isWalSegment, LEFT_OUT_OF_CLONES } from '../postgres/data_directory.ts'
import { ADMIN, ownSession } from '../postgres/own_session.ts'
import { redoPosition, writtenPosition } from '../postgres/recovery_position.ts'
import { socketPath } from '../postgres/server_socket.ts'
import { SEGMENT_BYTES, segmentPosition, timelineOf } from '../postgres/wal.ts'
import { withTimeout } from '../race.ts'
import { isSessionLost, type RunningParent } from './parent_session.ts'
import type { FillOptions } from './clone.ts'
import type { CopyPlan } from './copier.ts'

/** One call waits so long; the next one joins the clone. */
const CAP_MS = 2_500
/** More processes that clone files would wait for each other in the filesystem. */
const MAX_CPUS = 4
/**
 * A clone of a parent that has written more than this since its last checkpoint begins with another one. The parent
 * writes as much at once then as the clone would have to replay and to write.
 */
const MAX_REPLAY_BYTES = 256 * 2 ** 20
/** Before a clone of a parent begins again that is about to start or to stop. */
const PAUSE_MS = 250
/** The f_type of XFS (statfs(2)). */
const XFS = 0x58465342

/** The clones that this process makes, by home. */
const clones = new Map<string, Promise<Progress>>()

/** Clones the data directory of a plan, or joins a clone of it that this process makes. `pending`: call again. */
export async function cloneDataDirectory(plan: CopyPlan, options: FillOptions): Promise<Progress> {
  const { home } = plan
  const clone = clones.get(home) ?? makeClone(plan, options)
  clones.set(home, clone)
  let isOver = true
  try {
    const progress = await withTimeout(clone, CAP_MS, 'late')
    isOver = progress !== 'late'
    return isOver ? (progress as Progress) : 'pending'
  } finally {
    // The end of one that takes longer, or its error, is for the next call.
    if (isOver) clones.delete(home)
  }
}

/** Resolves when no clone that this process makes fills a home; undefined when there is none. */
export const cloneEnd = (home: string): Promise<unknown> | undefined => clones.get(home)?.catch(() => undefined)

async function makeClone(
  { home, from, owner, parent, isSpare }: CopyPlan,
  { removed, fence }: FillOptions,
): Promise<Progress> {
  const as = owner ? [String(owner.uid), String(owner.gid)] : ['-', '-']
  const sync = (await statfs(dirname(home))).type === XFS ? 'log' : 'all'
  const cpus = String(Math.min(MAX_CPUS, availableParallelism()))
  const at = [home, fenceText(fence), ...as]
  // Opened while files are cloned; a parent at rest has no socket.
  const opened = parent && existsSync(socketPath(parent.socketDir, SERVER_PORT)) ? openSession(parent) : undefined
  try {
    if (opened && bytesToReplay(join(from, 'pgdata')) > MAX_REPLAY_BYTES)
      await opened.then((client) => client && unlessLost(client.query('checkpoint')))
    const runs = isSpare ? 'spare' : parent ? '1' : ''
    const outcome = await effect(['clone', ...at, removed, from, runs, LEFT_OUT_OF_CLONES, cpus, sync])
    if (outcome !== 'live') return progressOf(outcome)
    const client = await opened
    const end = client && (await unlessLost(endOfWal(client)))
    if (!end) {
      // The parent was suspended, or is still starting: the clone starts over.
      await sleep(PAUSE_MS)
      return 'pending'
    }
    const { lsn, file, subscribed } = end
    const completed = await effect(['complete', ...at, from, sync, lsn, timelineOf(file), subscribed ? '1' : ''])
    // The next clone recovers from there.
    if (completed === 'stale') await unlessLost(client.query('checkpoint'))
    return progressOf(completed)
  } finally {
    void opened?.then((client) => client?.end()).catch(() => undefined)
  }
}

function progressOf(outcome: EffectOutcome): Progress {
  if (outcome === 'gone') throw new Error('The branch, or the one it is made of, was removed.')
  return outcome === 'done' ? 'done' : 'pending'
}

/** Runs an effect; one that is killed, as by a start of the parent, is to be repeated. */
async function effect(args: readonly string[]): Promise<EffectOutcome> {
  const { code, complaint } = await forkEffect(args).ended
  return code === null ? 'busy' : outcomeOf(code, complaint)
}

/** The WAL since the last checkpoint of a server, to the segment. */
function bytesToReplay(pgdata: string): number {
  const redo = redoPosition(pgdata) ?? 0
  const names = readdirSync(join(pgdata, 'pg_wal')).filter(isWalSegment)
  const first = names.find((name) => segmentPosition(name) === redo - (redo % SEGMENT_BYTES))
  return first === undefined ? 0 : writtenPosition(pgdata, first) - redo
}

/** Opens a session at a parent; undefined when its server ends or does not accept one yet. */
const openSession = ({ socketDir: host, passwords }: RunningParent): Promise<pg.Client | undefined> => {
  const session = unlessLost(ownSession({ host, port: SERVER_PORT, user: ADMIN, passwords, name: 'neap: branch' }))
  // It may fail before it is awaited.
  session.catch(() => undefined)
  return session
}

/** Settles as the promise does, but to undefined when a session was lost. */
const unlessLost = <T>(promise: Promise<T>): Promise<T | undefined> =>
  promise.catch((error: unknown) => {
    if (isSessionLost(error)) return undefined
    throw error
  })

/** Writes to the WAL of a server, and returns the position behind it once all up to there is on disk. */
async function endOfWal(client: pg.Client): Promise<{ lsn: string; file: string; subscribed: boolean }> {
  const { rows } = await client.query<{ lsn: string; file: string; subscribed: boolean }>(
    `select lsn::text, pg_walfile_name(lsn) as file, exists (select from pg_subscription) as subscribed
       from pg_logical_emit_message(true, 'neap', '') as lsn`,
  )
  const [end] = rows
  if (!end) throw new Error('the server answered no row')
  return end
}
