import { applyConfigOperation } from './apply_config.ts'
import { checkAvailability } from './check_availability.ts'
import { createBranch } from './create_branch.ts'
import { createTimeline } from './create_timeline.ts'
import { deleteTenant } from './delete_tenant.ts'
import { deleteTimeline } from './delete_timeline.ts'
import { startCompute } from './start_compute.ts'
import { suspendCompute } from './suspend_compute.ts'
import { timelineArchive } from './timeline_archive.ts'
import { timelineUnarchive } from './timeline_unarchive.ts'

/** Every action that a worker can run. */
export const ACTIONS = [
  createTimeline,
  createBranch,
  startCompute,
  suspendCompute,
  applyConfigOperation,
  checkAvailability,
  deleteTimeline,
  deleteTenant,
  timelineArchive,
  timelineUnarchive,
]
