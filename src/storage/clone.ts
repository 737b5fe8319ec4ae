import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { CloneKind } from '../host/clone_kind.ts'
import { ConfigurationError } from '../host/failures.ts'
import type { Fence, Progress } from '../host/fence.ts'
import type { CopyPlan } from './copier.ts'
import { programBeside, runDetached, throwNoted } from './detached.ts'
import { cloneDataDirectory } from './reflink.ts'
import { fenceText, isEffectCode, outcomeOf } from '../host/effect.ts'
import { dropLog } from '../host/logs.ts'
import { waitStopped } from '../host/server_lock.ts'

const COPIER = programBeside(import.meta.url, 'copier')

export interface FillOptions {
  readonly removed: string
  readonly logFile: string
  readonly cacheDir: string
  readonly fence?: Fence
  /** How the filesystem of the stores copies files. */
  readonly cloneKind: () => Promise<CloneKind>
}

/**
 * Fills a store's data directory by starting a copier, or joins a running one. Returns `pending` after half a second,
 * or when the copier was killed and the next call is to start another.
 * @param options.removed a file that exists once the store was removed
 * @throws FencedError when a newer attempt acted on this store; ConfigurationError when the data to copy are not there
 */
export async function fillDataDirectory(plan: CopyPlan, options: FillOptions): Promise<Progress> {
  const isThere = (home: string) => existsSync(join(home, 'pgdata'))
  if (existsSync(plan.from) && !isThere(plan.from) && !isThere(plan.home))
    throw new ConfigurationError('The data to copy are not in the data directory of this host.')
  if (!plan.replay && (await options.cloneKind()) === 'reflink' && process.platform === 'linux')
    return cloneDataDirectory(plan, options)
  const { removed, logFile, cacheDir, fence } = options
  // A copier that failed late, after the call that began it: a new one would remove its message.
  throwFailure(plan.home)
  const gid = plan.owner ? String(plan.owner.gid) : '-'
  const args = ['copy', plan.home, fenceText(fence), gid, removed, plan.parent ? plan.from : '-', ...COPIER]
  const code = await runDetached({ args, input: JSON.stringify(plan), logFile, cacheDir })
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

const throwFailure = (home: string): void => throwNoted(join(home, 'copy.error'))
