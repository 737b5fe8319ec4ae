import assert from 'node:assert/strict'
import type { Branch } from '../../src/catalog/branch.ts'
import { queueCheck } from '../../src/operations/check_availability.ts'
import { queueStart } from '../../src/operations/start_compute.ts'
import type { Case } from './cases.ts'
import type { World } from './world.ts'

/** The fields of an endpoint that a check does not change. */
async function seen(world: World, branch: Branch) {
  const { current_state, last_active, started_at, suspended_at } = await world.endpointOf(world.catalog, branch)
  return { current_state, last_active, started_at, suspended_at }
}

const ofSleeping: Case = {
  action: 'check_availability',
  about: 'check_availability of an idle endpoint',
  steps: ['compute_runs', 'probe_answered', 'still_unused', 'compute_stopped'],
  effectAt: 'compute_runs',
  async prepare(world) {
    const branch = await world.home()
    await world.running(branch)
    await world.suspended(branch)
    const before = await seen(world, branch)
    const asBefore = async () => assert.deepEqual(await seen(world, branch), before)
    return {
      request: async (tx) => queueCheck(tx, await world.endpointOf(tx, branch)),
      finished: asBefore,
      failed: asBefore,
    }
  },
}

const ofRunning: Case = {
  action: 'check_availability',
  about: 'check_availability of a running compute',
  steps: ['compute_runs', 'probe_answered'],
  faultsAt: ['probe_answered'],
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    const before = await seen(world, branch)
    const goesOn = async () => {
      assert.deepEqual(await seen(world, branch), before)
      assert.equal((await world.running(branch)).compute_id, endpoint.compute_id)
    }
    return { request: (tx) => queueCheck(tx, endpoint), finished: goesOn, failed: goesOn }
  },
}

const ofKilled: Case = {
  action: 'check_availability',
  about: 'check_availability of a killed compute',
  steps: ['compute_runs', 'probe_answered', 'still_unused', 'compute_stopped'],
  faultsAt: ['compute_runs'],
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    await world.killCompute(endpoint)
    const sleeps = async () =>
      assert.notEqual((await world.endpointOf(world.catalog, branch)).compute_id, endpoint.compute_id)
    return { request: (tx) => queueCheck(tx, endpoint), finished: sleeps, failed: async () => {} }
  },
}

const ofWoken: Case = {
  action: 'check_availability',
  about: 'check_availability of an endpoint that a client wakes meanwhile',
  steps: ['compute_runs', 'probe_answered', 'still_unused', 'compute_answers'],
  faultsAt: ['still_unused', 'compute_answers'],
  effectAt: 'compute_runs',
  async prepare(world) {
    const branch = await world.home()
    await world.suspended(branch)
    let start: Awaited<ReturnType<typeof queueStart>> | undefined
    const awake = async () => {
      assert.equal((await world.endpointOf(world.catalog, branch)).current_state, 'active')
    }
    return {
      async request(tx) {
        const check = await queueCheck(tx, await world.endpointOf(tx, branch))
        start = await queueStart(tx, await world.endpointOf(tx, branch), 'connection')
        return check
      },
      async settled() {
        assert.ok(start)
        assert.equal((await world.ended(start)).status, 'finished')
      },
      finished: awake,
      failed: awake,
    }
  },
}

export const availabilityChecks: readonly Case[] = [ofSleeping, ofRunning, ofKilled, ofWoken]
