import assert from 'node:assert/strict'
import { type Branch, raiseConfigVersion } from '../../src/catalog/branch.ts'
import type { Db } from '../../src/catalog/catalog.ts'
import { updateEndpoint } from '../../src/catalog/endpoint.ts'
import type { Operation } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { applyConfigOperation } from '../../src/operations/apply_config.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { queueStart } from '../../src/operations/start_compute.ts'
import type { Case } from './cases.ts'
import type { World } from './world.ts'

const nothing = async () => {}

async function requestRole(world: World, tx: Db, branch: Branch, name: string): Promise<Operation> {
  await world.addRole(tx, branch, name)
  await raiseConfigVersion(tx, branch.id)
  return requestOperation(tx, applyConfigOperation, world.subjectOf(branch), {})
}

const configuration: Case = {
  action: 'apply_config',
  about: 'apply_config of a new role',
  steps: ['config_applied'],
  async prepare(world) {
    const branch = await world.home()
    await world.running(branch)
    const name = world.newName()
    return {
      request: (tx) => requestRole(world, tx, branch, name),
      async finished() {
        assert.ok(await world.hasRole(branch, name))
        const { applied_version, config_version } = await world.read(branch)
        assert.equal(applied_version, config_version)
      },
      failed: nothing,
    }
  },
}

const configurationOfRestarted: Case = {
  action: 'apply_config',
  about: 'apply_config at a compute whose restart the catalog does not know',
  steps: ['config_applied'],
  faultsAt: [],
  async prepare(world) {
    const branch = await world.home()
    const before = await world.running(branch)
    await world.killCompute(before)
    await world.runOperation((tx) => queueStart(tx, before, 'request'))
    const { compute_id, started_at } = before
    return {
      async request(tx) {
        await tx.rows(sql`
          update endpoint set compute_id = ${compute_id}, started_at = ${started_at}
           where id = ${before.id}`)
        return requestOperation(tx, applyConfigOperation, world.subjectOf(branch), {})
      },
      async finished() {
        assert.notEqual((await world.running(branch)).compute_id, compute_id)
      },
      failed: nothing,
    }
  },
}

const configurationOfKilled: Case = {
  action: 'apply_config',
  about: 'apply_config at a killed compute',
  steps: ['config_applied'],
  faultsAt: [],
  async prepare(world) {
    const branch = await world.home()
    await world.killCompute(await world.running(branch))
    const name = world.newName()
    return {
      request: (tx) => requestRole(world, tx, branch, name),
      async finished() {
        await world.running(branch)
        assert.ok(await world.hasRole(branch, name))
      },
      failed: nothing,
    }
  },
}

let restarts = 0

const restart: Case = {
  action: 'apply_config',
  about: 'apply_config of a setting that needs a restart',
  steps: ['config_applied', 'settings_applied', 'intent_committed', 'compute_stopped', 'compute_answers'],
  faultsAt: ['settings_applied', 'intent_committed', 'compute_stopped', 'compute_answers'],
  effectAt: 'compute_stopped',
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    // Another value each time, or nothing needs a restart; Postgres shows multiples of 1024 in kB.
    const track_activity_query_size = String(2049 + (restarts++ % 1000))
    return {
      async request(tx) {
        await updateEndpoint(tx, endpoint.id, { settings: { pg_settings: { track_activity_query_size } } })
        const subject = { ...world.subjectOf(branch), endpoint_id: endpoint.id }
        return requestOperation(tx, applyConfigOperation, subject, { settings: ['track_activity_query_size'] })
      },
      async finished() {
        // A crashed catalog may have lost the record that this operation stopped the compute: then the endpoint is
        // idle, and its next start applies the setting.
        await world.running(branch)
        const inForce = await world.atCompute(branch, (session) => session.query('show track_activity_query_size'))
        assert.deepEqual(inForce, [{ track_activity_query_size: `${track_activity_query_size}B` }])
      },
      failed: nothing,
    }
  },
}

const egress: Case = {
  action: 'apply_config',
  about: 'apply_config of egress, which restarts the compute',
  steps: ['config_applied', 'intent_committed', 'compute_stopped', 'compute_answers'],
  faultsAt: ['config_applied'],
  effectAt: 'compute_stopped',
  async prepare(world) {
    const branch = await world.home()
    const { id: endpoint_id, compute_id } = await world.running(branch)
    return {
      request: (tx) =>
        requestOperation(tx, applyConfigOperation, { ...world.subjectOf(branch), endpoint_id }, { egress: false }),
      async finished() {
        assert.notEqual((await world.running(branch)).compute_id, compute_id)
      },
      failed: nothing,
    }
  },
}

export const configurations: readonly Case[] = [
  configuration,
  configurationOfKilled,
  configurationOfRestarted,
  restart,
  egress,
]
