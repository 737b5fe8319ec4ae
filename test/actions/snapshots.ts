import assert from 'node:assert/strict'
import { findSnapshot, forgetSnapshotOf, type Snapshot, snapshotBranch } from '../../src/catalog/snapshot.ts'
import { lockProject } from '../../src/catalog/project.ts'
import { removeBranch } from '../../src/commands/delete_branch.ts'
import { queueSnapshot } from '../../src/commands/snapshot.ts'
import type { Case } from './cases.ts'

/** A snapshot, whose data are in a hidden branch: it is made as any other, and gone with a failure. */
export const snapshotting: Case = {
  action: 'create_branch',
  about: 'create_branch of a snapshot',
  steps: ['branch_stored', 'branch_ready'],
  faultsAt: ['branch_stored'],
  effectAt: 'branch_stored',
  async prepare(world) {
    const source = await world.home()
    await world.suspended(source)
    let snapshot: Snapshot
    const found = () => findSnapshot(world.catalog, source.project_id, snapshot.id)
    return {
      async request(tx) {
        await lockProject(tx, source.account_id, source.project_id)
        const asked = { name: undefined, expires_at: null, is_scheduled: false }
        const queued = await queueSnapshot(tx, await world.read(source), asked)
        snapshot = queued.snapshot
        const [operation] = queued.operations
        assert.ok(operation)
        return operation
      },
      async finished() {
        const branch = await snapshotBranch(world.catalog, snapshot)
        assert.equal(branch.current_state, 'ready')
        assert.ok(await found())
        await world.catalog.transaction(async (tx) => {
          await forgetSnapshotOf(tx, branch.id)
          await removeBranch(tx, branch)
        })
        await world.awaitRemoval(branch)
      },
      async failed() {
        assert.equal(await found(), undefined)
        await world.awaitRemoval(await snapshotBranch(world.catalog, snapshot))
      },
    }
  },
}
