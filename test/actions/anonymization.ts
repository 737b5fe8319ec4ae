import assert from 'node:assert/strict'
import { insertMasking, setAnonymizing } from '../../src/catalog/masking.ts'
import { lockProject } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import { createBranch } from '../../src/operations/create_branch.ts'
import { requestOperation } from '../../src/operations/request.ts'
import type { Case } from './cases.ts'

/** The masking of an anonymized branch: a failure leaves it closed. */
export const anonymizing: Case = {
  action: 'create_branch',
  about: 'create_branch that anonymizes',
  steps: ['branch_stored', 'compute_stopped', 'wal_replayed', 'data_masked', 'replay_stopped', 'branch_ready'],
  faultsAt: ['data_masked'],
  effectAt: 'data_masked',
  async prepare(world) {
    const branch = await world.home()
    await world.suspended(branch)

    async function endsAs(state: string): Promise<void> {
      assert.equal((await world.read(branch)).masking_state, state)
      await world.catalog.rows(sql`delete from masking where branch_id = ${branch.id}`)
      await world.catalog.rows(sql`update branch set masking_state = null where id = ${branch.id}`)
    }
    return {
      async request(tx) {
        await lockProject(tx, branch.account_id, branch.project_id)
        await insertMasking(tx, branch.id, [])
        await setAnonymizing(tx, branch.id)
        const input = { parent_id: branch.id, anonymizes: true }
        return requestOperation(tx, createBranch, world.subjectOf(branch), input)
      },
      finished: () => endsAs('anonymized'),
      failed: () => endsAs('error'),
    }
  },
}
