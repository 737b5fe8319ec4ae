import {
  type ArchiveCandidate,
  countArchiving,
  listArchiveCandidates,
  setArchivePending,
  whenToBeArchived,
} from '../catalog/archived_branch.ts'
import { lockProject } from '../catalog/project.ts'
import type { WorkerContext } from '../context.ts'
import { requestOperation } from '../operations/request.ts'
import { timelineArchive } from '../operations/timeline_archive.ts'
import { type Loop, startPeriodic } from './periodic.ts'

const EVERY_MS = 60_000
/** Branches that are looked at in one round, and those of a host that are compressed beside each other. */
const AT_ONCE = 50
const PLACES = 2

/** Archives branches of this host that were unused for long. The cost grows with those that are to be looked at. */
export function startArchiveLoop(context: WorkerContext): Loop {
  const { catalog, storage, hostId, config, log } = context
  const rule = { ageSeconds: config.archiveAfter, unusedSeconds: config.archiveUnused }
  let shares: boolean | undefined
  // A trial on the disk.
  const sharesBlocks = async () => (shares ??= (await storage.cloneMode()) !== 'copy')
  const archive = (candidate: ArchiveCandidate): Promise<boolean> =>
    catalog.transaction(async (tx) => {
      const { id: branch_id, account_id, project_id } = candidate
      const project = await lockProject(tx, account_id, project_id)
      const when = await whenToBeArchived(tx, candidate, rule)
      if (!project || !when || (when === 'unshared' && (await sharesBlocks()))) return false
      await requestOperation(tx, timelineArchive, { account_id, project_id, branch_id }, {})
      await setArchivePending(tx, branch_id)
      return true
    })

  const round = async (): Promise<void> => {
    // The tar of other systems cannot compare.
    if (config.archiveAfter === 0 || process.platform !== 'linux') return
    let places = PLACES - (await countArchiving(catalog, hostId))
    if (places <= 0) return
    for (const candidate of await listArchiveCandidates(catalog, hostId, AT_ONCE)) {
      // Each by itself: a failure holds up no other.
      const queued = await archive(candidate).catch((error: unknown) => {
        log.warn({ err: error, branch: candidate.id }, 'could not archive an unused branch')
        return false
      })
      if (queued) places -= 1
      if (places === 0) break
    }
  }
  const everyMs = Math.min(EVERY_MS, Math.max(1, config.archiveUnused) * 1000)
  return startPeriodic(everyMs, round, (error) => log.warn({ err: error }, 'could not archive unused branches'))
}
