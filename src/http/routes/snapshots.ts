import { type Static, Type } from 'typebox'
import { listSnapshots } from '../../catalog/snapshot.ts'
import type { ChangedBranch } from '../../commands/changed.ts'
import { lookAtBranch } from '../../commands/look.ts'
import { requireBranch, requireProject } from '../../commands/require.ts'
import { branchSchedule, scheduleSnapshots } from '../../commands/snapshot_schedule.ts'
import {
  changeSnapshot,
  deleteSnapshot,
  finalizeRestore,
  lookAtTarget,
  restoreSnapshot,
  takeSnapshot,
} from '../../commands/snapshot.ts'
import { Branch, branchViewWithUse } from '../../views/branch.ts'
import { Operation, operationView } from '../../views/operation.ts'
import { Snapshot, snapshotView } from '../../views/snapshot.ts'
import { type RequestContext, route } from '../route.ts'
import { BranchParams, ProjectParams } from '../path_params.ts'

const SnapshotParams = Type.Object({ project_id: Type.String(), snapshot_id: Type.String() })
const Operations = Type.Array(Operation)
const Name = Type.String({ minLength: 1, maxLength: 256 })

export const createBranchSnapshot = route('POST /projects/:project_id/branches/:branch_id/snapshot', {
  summary: 'Take a snapshot of a branch, as it is now or was at a moment',
  tag: 'Snapshot',
  params: BranchParams,
  query: Type.Object({
    name: Type.Optional(Name),
    timestamp: Type.Optional(Type.String({ description: 'Within the history of the branch; not with lsn' })),
    lsn: Type.Optional(Type.String({ description: 'Within the history of the branch; not with timestamp' })),
    expires_at: Type.Optional(Type.String({ format: 'date-time', description: 'When it is removed; never without' })),
  }),
  returns: Type.Object({ snapshot: Snapshot, operations: Operations }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
})
  .ask(({ params }, context) => lookAtBranch(context, params))
  .handle(async ({ params, query }, context, look) => {
    const { snapshot, operations } = await takeSnapshot(context, params, query, look)
    return { snapshot: snapshotView(snapshot), operations: operations.map((each) => operationView(each)) }
  })

export const listProjectSnapshots = route('GET /projects/:project_id/snapshots', {
  summary: 'List the snapshots of a project, newest first',
  tag: 'Snapshot',
  params: ProjectParams,
  returns: Type.Object({ snapshots: Type.Array(Snapshot) }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params: { project_id } }, context) => {
  await requireProject(context, project_id)
  return { snapshots: (await listSnapshots(context.db, project_id)).map(snapshotView) }
})

export const updateProjectSnapshot = route('PATCH /projects/:project_id/snapshots/:snapshot_id', {
  summary: 'Rename a snapshot, or say when it is to be removed',
  tag: 'Snapshot',
  params: SnapshotParams,
  body: Type.Object({
    snapshot: Type.Object({
      name: Type.Optional(Name),
      expires_at: Type.Optional(Type.Union([Type.String({ format: 'date-time' }), Type.Null()])),
    }),
  }),
  returns: Type.Object({ snapshot: Snapshot }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => ({
  snapshot: snapshotView(await changeSnapshot(context, params, body.snapshot)),
}))

export const deleteProjectSnapshot = route('DELETE /projects/:project_id/snapshots/:snapshot_id', {
  summary: 'Remove a snapshot; branches that were made of it stay',
  tag: 'Snapshot',
  params: SnapshotParams,
  status: 202,
  freesDisk: true,
  returns: Type.Object({ operations: Operations }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => ({
  operations: (await deleteSnapshot(context, params)).map((each) => operationView(each)),
}))

const BranchAndOperations = Type.Object({ branch: Branch, operations: Operations })

export const restoreProjectSnapshot = route('POST /projects/:project_id/snapshots/:snapshot_id/restore', {
  summary: 'Make a branch of a snapshot, or give a branch the data of one',
  description:
    'Makes a branch to look at; POST …/branches/{branch_id}/finalize_restore then gives its data to the target. With ' +
    'finalize_restore the target gets the data at once. It keeps its id, endpoint and passwords, and the branch ' +
    'named name has its old data.',
  tag: 'Snapshot',
  params: SnapshotParams,
  query: Type.Object({ name: Type.Optional(Name) }),
  body: Type.Object({
    name: Type.Optional(Name),
    target_branch_id: Type.Optional(
      Type.String({ description: 'The branch to replace; the one that the snapshot was taken of unless given' }),
    ),
    finalize_restore: Type.Optional(Type.Boolean()),
  }),
  returns: BranchAndOperations,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'BRANCH_ALREADY_EXISTS', 'BRANCHES_LIMIT_EXCEEDED'],
})
  .ask(({ params, body }, context) => lookAtTarget(context, params, body.target_branch_id))
  .handle(async ({ params, query, body }, context, look) =>
    restored(context, await restoreSnapshot(context, params, { ...query, ...body }, look)),
  )

export const finalizeBranchRestore = route('POST /projects/:project_id/branches/:branch_id/finalize_restore', {
  summary: 'Give the data of a branch that was made of a snapshot to the branch that it was made for',
  description: 'The target keeps its id, endpoint and passwords; the branch named name has its old data.',
  tag: 'Branch',
  params: BranchParams,
  body: Type.Object({ name: Type.Optional(Name) }),
  returns: Type.Object({ operations: Operations }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'BRANCH_ALREADY_EXISTS', 'BRANCHES_LIMIT_EXCEEDED'],
}).handle(async ({ params, body }, context) => ({
  operations: (await finalizeRestore(context, params, body.name)).map((each) => operationView(each)),
}))

/** Ten years. */
const MAX_RETENTION_SECONDS = 315_360_000

const ScheduleItem = Type.Object({
  frequency: Type.Union([
    Type.Literal('hourly'),
    Type.Literal('daily'),
    Type.Literal('weekly'),
    Type.Literal('monthly'),
    Type.Literal('yearly'),
  ]),
  hour: Type.Optional(Type.Integer({ minimum: 0, maximum: 23, description: 'In UTC; 0 unless given' })),
  day: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 31,
      description: 'Of the week, Monday is 1; or of the month, whose last day stands for those that it lacks',
    }),
  ),
  month: Type.Optional(Type.Integer({ minimum: 1, maximum: 12 })),
  retention_seconds: Type.Optional(
    Type.Integer({
      minimum: 3600,
      maximum: MAX_RETENTION_SECONDS,
      description: 'How long its snapshots are kept; for ever unless given',
    }),
  ),
})

const Schedule = Type.Object({ schedule: Type.Array(ScheduleItem, { maxItems: 20 }) })

export const getBackupSchedule = route('GET /projects/:project_id/branches/:branch_id/backup_schedule', {
  summary: 'When snapshots of a branch are taken by themselves',
  tag: 'Snapshot',
  params: BranchParams,
  returns: Schedule,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) => {
  await requireProject(context, params.project_id)
  const branch = await requireBranch(context, params.project_id, params.branch_id)
  return { schedule: [...(await branchSchedule(context, branch))] }
})

export const setBackupSchedule = route('PUT /projects/:project_id/branches/:branch_id/backup_schedule', {
  summary: 'Say when snapshots of a branch are taken by themselves',
  description: 'The newest one is kept beyond its time while there is a schedule. An empty schedule takes none.',
  tag: 'Snapshot',
  params: BranchParams,
  body: Schedule,
  returns: Schedule,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => ({
  schedule: [...(await scheduleSnapshots(context, params, body.schedule))],
}))

async function restored(
  { db }: RequestContext,
  { branch, operations }: ChangedBranch,
): Promise<Static<typeof BranchAndOperations>> {
  return { branch: await branchViewWithUse(db, branch), operations: operations.map((each) => operationView(each)) }
}
