/**
 * Clones of data directories where files share blocks: an effect clones the files (clone.pl), and this process asks a
 * running parent for the end of its WAL.
 */
import { existsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { fenceText, outcomeOf, runEffect, type EffectOutcome } from '../host/effect.ts'
import type { Progress } from '../host/fence.ts'
import { SERVER_PORT } from '../host/layout.ts'
import { forkEffect } from '../host/spawner.ts'
import { recoveryEnd } from '../postgres/control_file.ts'
import { LEFT_OUT_OF_CLONES } from '../postgres/data_directory.ts'
import { endSession } from '../postgres/own_session.ts'
import { redoPosition, segmentNames, writtenPosition } from '../postgres/recovery_position.ts'
import { socketPath } from '../postgres/server_socket.ts'
import { segmentPosition, segmentStart, timelineOf } from '../postgres/wal.ts'
import { withTimeout } from '../race.ts'
import { listBases } from './base_place.ts'
import { endOfWal, isSessionLost, parentSession, type RunningParent } from './parent_session.ts'
import type { FillOptions } from './clone.ts'
import type { CopyPlan } from './copier.ts'
import { findSpare } from './spare.ts'

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
/** A clone of files with more extents takes half as long again as one of a new branch. */
const MANY_EXTENTS = 4_000
/** A clone takes as long for so many extents as a recovery does for a MiB of WAL. */
const EXTENTS_PER_MIB = 160
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
  { home, from, owner, parent, isSpare, isBase }: CopyPlan,
  { removed, fence }: FillOptions,
): Promise<Progress> {
  const as = owner ? [String(owner.uid), String(owner.gid)] : ['-', '-']
  const sync = (await statfs(dirname(home))).type === XFS ? 'log' : 'all'
  const cpus = String(Math.min(MAX_CPUS, availableParallelism()))
  const at = [home, fenceText(fence), ...as]
  // Opened while files are cloned; a parent at rest has no socket.
  const opened = parent && existsSync(socketPath(parent.socketDir, SERVER_PORT)) ? openSession(parent) : undefined
  try {
    const base = opened && !isBase ? await baseInsteadOf(from) : undefined
    if (opened && base === undefined && bytesToReplay(from) > MAX_REPLAY_BYTES)
      await opened.then((client) => client && unlessLost(client.query('checkpoint')))
    const runs = isSpare ? 'spare' : parent ? '1' : ''
    const outcome = await effect(['clone', ...at, removed, from, runs, base ?? '', LEFT_OUT_OF_CLONES, cpus, sync])
    if (outcome !== 'live' && outcome !== 'based') return progressOf(outcome)
    const client = await opened
    const end = client && (await unlessLost(endOfWal(client)))
    if (!end) {
      // The parent was suspended, or is still starting: the clone starts over.
      await sleep(PAUSE_MS)
      return 'pending'
    }
    const { lsn, file, subscribed } = end
    const completes = ['complete', ...at, from, sync, lsn, timelineOf(file), subscribed ? '1' : '', outcome]
    const completed = await effect(completes)
    // The next clone recovers from there.
    if (completed === 'stale') await unlessLost(client.query('checkpoint'))
    return progressOf(completed)
  } finally {
    void opened?.then((client) => client && endSession(client)).catch(() => undefined)
  }
}

/**
 * The latest base with a spare of a running store, if that and the WAL since lead to a clone sooner than the store's
 * files do, which have many extents.
 */
async function baseInsteadOf(home: string): Promise<string | undefined> {
  const base = (await listBases(home)).find(findSpare)
  const spare = base && findSpare(base)
  const pgdata = join(spare ?? '', 'pgdata')
  const redo = spare === undefined ? undefined : redoPosition(pgdata)
  if (redo === undefined) return undefined
  const recovery = await recoveryEnd(pgdata).catch(() => undefined)
  const end = recovery?.position ?? redo
  const since = walSince(home, end)
  if (since === undefined) return undefined
  const extents = Math.max(MANY_EXTENTS, ((end - redo + since) / 2 ** 20) * EXTENTS_PER_MIB)
  return (await hasManyExtents(home, Math.ceil(extents))) ? base : undefined
}

/** Whether the files of a store have more extents, each of which a clone copies. */
export const hasManyExtents = async (home: string, limit = MANY_EXTENTS): Promise<boolean> =>
  (await runEffect(['extents', home, String(limit)])) === 'stale'

const bytesToReplay = (home: string): number => walSince(home, redoPosition(join(home, 'pgdata')) ?? 0) ?? 0

/** The bytes of a store's WAL in its `pg_wal` from a position on, to the segment; undefined when that is not there. */
function walSince(home: string, position: number): number | undefined {
  const pgdata = join(home, 'pgdata')
  const first = segmentNames(pgdata).find((name) => segmentPosition(name) === segmentStart(position))
  return first === undefined ? undefined : writtenPosition(pgdata, first) - position
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

/** Opens a session at a parent; undefined when its server ends or does not accept one yet. */
const openSession = (parent: RunningParent): Promise<pg.Client | undefined> => {
  const session = unlessLost(parentSession(parent))
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
