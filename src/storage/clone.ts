import { closeSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withTimeout } from '../race.ts'
import type { CloneKind } from '../host/clone_kind.ts'
import type { Fence, Progress } from '../host/fence.ts'
import type { CopyPlan } from './copier.ts'
import { cloneDataDirectory } from './reflink.ts'
import { fenceText, isEffectCode, outcomeOf, spawnEffect } from '../host/effect.ts'
import { dropLog, openLog } from '../host/logs.ts'
import { waitStopped } from '../host/server_lock.ts'

// In this directory, and compiled exactly when this file is.
const COPIER = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? 'copier.ts' : 'copier.js', import.meta.url))
export interface FillOptions {
  readonly removed: string
  readonly logFile: string
  readonly cacheDir: string
  readonly fence?: Fence
  /** How the filesystem of the stores copies files. */
  readonly cloneKind: () => Promise<CloneKind>
}

/** Most copies of small stores take less. */
const CAP_SECONDS = 0.5

/**
 * Fills a store's data directory by starting a copier, or joins a running one. Returns `pending` after half a second,
 * or when the copier was killed and the next call is to start another.
 * @param options.removed a file that exists once the store was removed
 * @throws FencedError when a newer attempt acted on this store
 */
export async function fillDataDirectory(plan: CopyPlan, options: FillOptions): Promise<Progress> {
  if (!plan.replay && (await options.cloneKind()) === 'reflink' && process.platform === 'linux')
    return cloneDataDirectory(plan, options)
  const { removed, logFile, cacheDir, fence } = options
  // A copier that failed late, after the call that began it: a new one would remove its message.
  throwFailure(plan.home)
  const log = openLog(logFile)
  const program = [process.execPath, '--disable-warning=ExperimentalWarning', COPIER]
  const gid = plan.owner ? String(plan.owner.gid) : '-'
  const args = ['copy', plan.home, fenceText(fence), gid, removed, plan.parent ? plan.from : '-', ...program]
  // The compile cache halves the run time of the copier.
  const child = spawnEffect(args, log.file, { NODE_COMPILE_CACHE: cacheDir })
  child.stdin?.end(JSON.stringify(plan))
  closeSync(log.file)
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', resolve)
  })
  child.unref()
  const code = await withTimeout(ended, CAP_SECONDS * 1000, 'late')
  if (code === 'late') return 'pending'
  if (isEffectCode(code)) {
    const outcome = outcomeOf(code, '')
    if (outcome === 'gone') {
      if (!existsSync(plan.home)) dropLog(logFile)
      throw new Error('The branch, or the one it is made of, was removed.')
    }
    if (outcome === 'busy' || (await waitStopped(plan.home, 0)) === 'pending') return 'pending'
  }
  return resultIn(plan.home)
}

function resultIn(home: string): Progress {
  if (existsSync(join(home, 'pgdata'))) return 'done'
  throwFailure(home)
  return 'pending'
}

function throwFailure(home: string): void {
  const failure = join(home, 'copy.error')
  if (!existsSync(failure)) return
  const message = readFileSync(failure, 'utf8')
  rmSync(failure, { force: true })
  throw new Error(message)
}
