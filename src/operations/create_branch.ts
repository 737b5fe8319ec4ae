/*
 * Creates a branch as a clone of its parent. Many children of one parent are created side by side. A restore is two of
 * these: the first makes a copy of the source; the second, on the branch itself, exchanges the data of the two
 * (restore_branch.ts).
 *
 *   branch_stored ─┬───────────────────────────────────────────────────────▶ branch_ready
 *                  ├─▶ wal_replayed ─┬─────────────────────────────────────┤
 *                  │                 ├───────────────────▶ replay_stopped ──────┘
 *                  │                 │   (of a parent that wrote much meanwhile, and of a moment: moment.ts)
 *                  │                 ├─▶ data_removed ─────┤ (of the schema only)
 *                  │                 └─▶ data_masked ──────┘ (anonymizes: of a branch that is there)
 *                  └─▶ compute_stopped ─▶ data_exchanged    (with a copy_id)
 *                             └─▶ wal_replayed              (anonymizes)
 */
import {
  findStoredBranch,
  setBranchFailed,
  setBranchReady,
  setFinalized,
  type StoredBranch,
} from '../catalog/branch.ts'
import { keepPasswords, takePasswords } from '../catalog/branch_config.ts'
import { setIdle } from '../catalog/compute.ts'
import { findBranchEndpoint } from '../catalog/endpoint.ts'
import { setMaskingFailed } from '../catalog/masking.ts'
import { abandonCopy, exchangeData, moveInTree } from '../catalog/restore.ts'
import { findSnapshotOf, forgetSnapshotOf } from '../catalog/snapshot.ts'
import { setStoreReady } from '../catalog/store.ts'
import type { Db } from '../catalog/catalog.ts'
import { listAncestors } from '../catalog/history.ts'
import { probe } from '../compute_admin/probe.ts'
import { isRefusal, removeData } from '../compute_admin/remove_data.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, done, goto, OperationFailed, waitUntil, watching } from '../engine/definition.ts'
import { messageOf } from '../errors.ts'
import type { Restoration } from '../storage/storage.ts'
import { takeConfig } from './branch_config.ts'
import { waitForCopy } from './copying.ts'
import { longRun } from './long_run.ts'
import { mask } from './masking.ts'
import { endHistory } from './wal_history.ts'
import { type StoreMoment, planRestoration } from './moment.ts'
import { type Action, branchOf, fenceOf, ownedRefOf, refOf, stopCompute } from './request.ts'
import { countStoreWal } from './store_wal.ts'

export interface CreateBranchInput {
  readonly parent_id: string
  /** The moment whose data the branch gets; undefined: the one at which it is copied. */
  readonly moment?: StoreMoment
  /** The branch has the schema of its parent, without data. */
  readonly schema_only?: boolean
  /** Masks the data of the branch, which is its own parent here. */
  readonly anonymizes?: boolean
  /** The branch that is to take the new data. A shared lock keeps it unchanged until the copy is made. */
  readonly restores?: string
  /** The branch takes the data of this one, a copy of `parent_id`. */
  readonly copy_id?: string
  /** Roles keep the passwords that they have in the branch then. */
  readonly keeps_passwords?: boolean
  /** The branch made of a snapshot that has replaced the branch then. */
  readonly finalizes?: string | undefined
}

async function planOf(
  { computes, secrets, log }: WorkerContext,
  tx: Db,
  parent: StoredBranch,
  { store_id, target }: StoreMoment,
): Promise<Restoration> {
  const plan = planRestoration(await listAncestors(tx, store_id), target)
  if (!plan) throw new OperationFailed('the history of the parent does not reach back to this moment any more')
  const compute = parent.store_id === store_id && 'timestamp' in target ? await computes.find(refOf(parent)) : undefined
  // After a time Postgres looks for a commit; without one it has to replay all once more.
  if (compute)
    await withAdminSession(compute.address, secrets.stores, { purpose: 'moment' }, probe).catch((error: unknown) =>
      log.debug({ err: error, branch: parent.id }, 'no commit after the moment'),
    )
  return plan
}

/**
 * The copy for a restore and the data of a snapshot are hidden: they count as deleted from the beginning. Errors:
 * OperationFailed (the branch was deleted meanwhile).
 */
async function requireWanted(tx: Db, branch: StoredBranch): Promise<void> {
  if (branch.deleted_at && !branch.restores && !(await findSnapshotOf(tx, branch.id)))
    throw new OperationFailed('cancelled: the branch was deleted')
}

/** Whether a compute is to run on a branch before it is ready, and the step with which it changes the data then. */
async function changesOf(
  { input: { moment, schema_only, anonymizes } }: Claimed<CreateBranchInput>,
  { storage, computes, config }: WorkerContext,
  branch: StoredBranch,
): Promise<{ runs: boolean; changes: string | undefined }> {
  const changes = schema_only ? 'data_removed' : anonymizes ? 'data_masked' : undefined
  if (moment ?? changes) return { runs: true, changes }
  const store = refOf(branch)
  const megabytes = (await storage.replayBytes(store)) / 2 ** 20
  // It may run since an earlier attempt, which has replayed all: steps begin anew where the catalog has crashed.
  return { runs: megabytes > config.replayMb || (await computes.find(store)) !== undefined, changes }
}

/** Records that the compute of a branch has been stopped for other data. */
async function closeEndpoint(tx: Db, { id }: StoredBranch): Promise<void> {
  const endpoint = await findBranchEndpoint(tx, id)
  if (endpoint?.current_state === 'active') await setIdle(tx, endpoint.id, 'restore')
}

/** The size of a compute that only replays WAL. */
const REPLAYING = { minCu: 1, maxCu: 1, cu: 1, egress: false, serves: false }

const REMOVAL = { purpose: 'schema only', timeoutMs: 60_000 }

export const createBranch: Action<CreateBranchInput> = {
  action: 'create_branch',
  lane: 'copy',
  deadlineSeconds: 6 * 3600,
  needsBranches: true,
  locks: ({ branch_id }, { parent_id, restores, copy_id }) => ({
    excludes: [branch_id, copy_id].filter((id) => id !== undefined),
    shares: [...new Set([parent_id, restores])].filter((id) => id !== undefined),
  }),
  steps: {
    async branch_stored(operation, context, tx) {
      const { storage } = context
      if (operation.input.copy_id || operation.input.anonymizes) return goto('compute_stopped')
      const branch = await branchOf(tx, operation)
      await requireWanted(tx, branch)
      const parent = await findStoredBranch(tx, operation.input.parent_id)
      if (parent?.current_state !== 'ready')
        throw new OperationFailed(`the parent ${operation.input.parent_id} holds no data`)
      const made = await ownedRefOf(context, branch)
      const { moment } = operation.input
      const progress = moment
        ? await storage.restore(made, await planOf(context, tx, parent, moment), fenceOf(operation))
        : await storage.clone(made, refOf(parent), fenceOf(operation))
      if (progress === 'pending') return waitForCopy(storage, refOf(branch), 'the parent is being copied')
      await Promise.all([
        moment ? undefined : keepPasswords(tx, branch.id, parent.id),
        setStoreReady(tx, branch.store_id),
        moment ? undefined : countStoreWal(storage, tx, branch.store_id),
      ])
      return (await changesOf(operation, context, branch)).runs ? undefined : goto('branch_ready')
    },
    async wal_replayed(operation, context, tx) {
      const { storage, computes } = context
      const branch = await branchOf(tx, operation)
      await requireWanted(tx, branch)
      const store = refOf(branch)
      const { moment } = operation.input
      const { runs, changes } = await changesOf(operation, context, branch)
      if (!runs) return goto('branch_ready')
      // Some settings may not be smaller than they were where the WAL was written.
      const parent = await findBranchEndpoint(tx, operation.input.parent_id)
      const spec = { ...REPLAYING, pgSettings: parent?.settings.pg_settings ?? {} }
      const compute = await computes.start(store, spec, fenceOf(operation))
      if (compute === 'pending') return watching(computes.settled(store), await computes.readProgress(store))
      if (moment) {
        await takeConfig(context, compute.address, tx, branch)
        await countStoreWal(storage, tx, branch.store_id)
      }
      return goto(changes ?? 'replay_stopped')
    },
    async data_removed(operation, context, tx) {
      const branch = await branchOf(tx, operation)
      await requireWanted(tx, branch)
      const compute = await context.computes.find(refOf(branch))
      if (!compute) return goto('wal_replayed')
      try {
        const ended = longRun(`${operation.id} ${compute.id}`, () =>
          withAdminSession(compute.address, context.secrets.stores, REMOVAL, async (session) => {
            await removeData(session)
            await endHistory(context, session, branch)
          }),
        )
        return ended ? waitUntil(ended, 'data are being removed') : goto('replay_stopped')
      } catch (error) {
        const why = messageOf(error)
        // What Postgres refuses it will refuse again; a statement that was too slow twice will be so again.
        if (isRefusal(error) || operation.error === why)
          throw new OperationFailed(`the data could not be removed: ${why}`)
        throw error
      }
    },
    async data_masked(operation, context, tx) {
      const branch = await branchOf(tx, operation)
      await requireWanted(tx, branch)
      const compute = await context.computes.find(refOf(branch))
      return compute ? mask(operation, context, tx, branch, compute) : goto('wal_replayed')
    },
    async replay_stopped(operation, context, tx) {
      return stopCompute(context, operation, await branchOf(tx, operation))
    },
    async branch_ready(operation, _context, tx) {
      const branch = await branchOf(tx, operation)
      // A copy becomes ready only by the exchange, which gives it the old data of the branch that it restores.
      if (!branch.restores) await setBranchReady(tx, branch.id)
      return done
    },
    async compute_stopped(operation, context, tx) {
      const branch = await branchOf(tx, operation)
      const { parent_id, moment, anonymizes } = operation.input
      if (branch.id === parent_id && !moment && !anonymizes) return undefined
      // Also when no compute runs: it raises the fence, so that no frozen worker can start a compute on the old data.
      const stopping = await stopCompute(context, operation, branch)
      if (stopping) return stopping
      if (!anonymizes) return undefined
      await closeEndpoint(tx, branch)
      return goto('wal_replayed')
    },
    async data_exchanged(operation, _context, tx) {
      const branch = await branchOf(tx, operation)
      const copy = await findStoredBranch(tx, operation.input.copy_id ?? '')
      const exchanged = branch.store_id === copy?.id || branch.parent_id === copy?.id
      if (exchanged) return
      if (branch.deleted_at) throw new OperationFailed('cancelled: the branch was deleted')
      if (copy?.restores !== branch.id)
        throw new OperationFailed('cancelled: the branch that was to keep the old data was deleted')
      const { parent_id, moment, keeps_passwords, finalizes } = operation.input
      if (keeps_passwords) await takePasswords(tx, copy.id, branch.id)
      if (finalizes) await setFinalized(tx, finalizes)
      if (branch.id !== parent_id || moment) {
        await closeEndpoint(tx, branch)
        await exchangeData(tx, branch, copy)
      }
      await moveInTree(tx, branch, copy, parent_id)
    },
  },
  async onFailure(operation, context, tx) {
    const branch = await branchOf(tx, operation)
    const { copy_id } = operation.input
    if (!copy_id) {
      const stopping = await stopCompute(context, operation, branch)
      if (stopping) return stopping
      if (operation.input.anonymizes) {
        await closeEndpoint(tx, branch)
        return setMaskingFailed(tx, branch.id, operation.error ?? 'the data could not be masked')
      }
      await forgetSnapshotOf(tx, branch.id)
      return setBranchFailed(tx, branch.id)
    }
    const endpoint = await findBranchEndpoint(tx, branch.id)
    const stopped = endpoint?.current_state === 'active' && !(await context.computes.find(refOf(branch)))
    if (stopped) await setIdle(tx, endpoint.id, 'restore')
    await abandonCopy(tx, copy_id)
  },
}
