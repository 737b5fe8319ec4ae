import assert from 'node:assert/strict'
import {
  type Branch,
  findStoredBranch,
  listStoredBranches,
  markBranchDeleted,
  raiseConfigVersion,
} from '../../src/catalog/branch.ts'
import { copyRolesAndDatabases } from '../../src/catalog/branch_config.ts'
import type { Db } from '../../src/catalog/catalog.ts'
import { findEndpointEver, markEndpointDeleted, setIdleCheck } from '../../src/catalog/endpoint.ts'
import type { Operation } from '../../src/catalog/operation.ts'
import { deleteProject, lockProject } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import { readActivity } from '../../src/compute_admin/activity.ts'
import type { AdminSession } from '../../src/compute_admin/session.ts'
import { createBranch } from '../../src/operations/create_branch.ts'
import { createTimeline } from '../../src/operations/create_timeline.ts'
import { deleteTenant } from '../../src/operations/delete_tenant.ts'
import { deleteTimeline } from '../../src/operations/delete_timeline.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { queueStart } from '../../src/operations/start_compute.ts'
import { queueSuspend } from '../../src/operations/suspend_compute.ts'
import { newBranch, newProject } from '../engine/operations.ts'
import { until } from '../processes.ts'
import { archiving } from './archiving.ts'
import { anonymizing } from './anonymization.ts'
import { availabilityChecks } from './availability.ts'
import { configurations } from './configurations.ts'
import { restorations } from './restorations.ts'
import { snapshotting } from './snapshots.ts'
import type { World } from './world.ts'

/** One way to request an action, with its expected results. */
export interface Case {
  readonly action: string
  readonly about: string
  /** The expected steps, in order. */
  readonly steps: readonly string[]
  /** The steps at which faults are injected: those that other cases of the action do not cover. All by default. */
  readonly faultsAt?: readonly string[]
  /** The step that changes the machine: its worker is also killed during that change. */
  readonly effectAt?: string
  /** Prepares the resources of one run. */
  readonly prepare: (world: World) => Promise<Run>
}

export interface Run {
  /** Changes the resources and queues the operation, as the API does. */
  readonly request: (tx: Db) => Promise<Operation>
  /** Waits for other operations of the request. */
  readonly settled?: () => Promise<void>
  /** Asserts the result, beyond the agreement of catalog and machine. */
  readonly finished: () => Promise<void>
  /** The same after a failure: the remains must be usable or removed. */
  readonly failed: () => Promise<void>
}

const nothing = async () => {}

const creation: Case = {
  action: 'create_timeline',
  about: 'create_timeline',
  steps: ['template_ready', 'branch_stored', 'branch_ready'],
  effectAt: 'branch_stored',
  async prepare(world) {
    let branch: Branch
    return {
      async request(tx) {
        branch = await newBranch(tx, await newProject(tx))
        await world.addRole(tx, branch, 'owner')
        return requestOperation(tx, createTimeline, world.subjectOf(branch), {})
      },
      async finished() {
        assert.equal((await world.read(branch)).current_state, 'ready')
        world.projects.push(branch)
      },
      async failed() {
        assert.equal((await world.read(branch)).current_state, 'init')
      },
    }
  },
}

/** Writes more WAL than a branch may have to replay here, and less than a copy takes without another checkpoint. */
async function writeWal(session: AdminSession): Promise<void> {
  await session.query('select pg_switch_wal()')
  await session.query('checkpoint')
  await session.query("select pg_logical_emit_message(false, 'test', repeat('x', 2 * 1024 * 1024))")
}

const branching = (parentRuns: boolean): Case => ({
  action: 'create_branch',
  about: `create_branch of ${parentRuns ? 'a running' : 'an idle'} parent`,
  steps: ['branch_stored', ...(parentRuns ? ['wal_replayed', 'replay_stopped'] : []), 'branch_ready'],
  effectAt: 'branch_stored',
  async prepare(world) {
    const parent = await world.home()
    await (parentRuns ? world.running(parent) : world.suspended(parent))
    const written = parentRuns ? await world.write(parent) : undefined
    if (parentRuns) await world.atCompute(parent, writeWal)
    let branch: Branch
    return {
      async request(tx) {
        const project = await lockProject(tx, parent.account_id, parent.project_id)
        assert.ok(project)
        branch = await newBranch(tx, project, parent)
        await copyRolesAndDatabases(tx, parent.id, branch.id)
        return requestOperation(tx, createBranch, world.subjectOf(branch), { parent_id: parent.id })
      },
      async finished() {
        assert.equal((await world.read(branch)).current_state, 'ready')
        if (written) {
          await world.running(branch)
          assert.equal(await world.lastWritten(branch), written)
          await world.suspended(branch)
        }
        world.children.push(branch)
      },
      async failed() {
        assert.equal((await world.read(branch)).current_state, 'init')
        // The branch can still be deleted.
        world.children.push(branch)
      },
    }
  },
})

/** A branch of its parent at a moment before the last write. */
const momentBranching: Case = {
  action: 'create_branch',
  about: 'create_branch of a moment',
  steps: ['branch_stored', 'wal_replayed', 'replay_stopped', 'branch_ready'],
  faultsAt: ['branch_stored', 'wal_replayed'],
  effectAt: 'wal_replayed',
  async prepare(world) {
    const parent = await world.home()
    await world.running(parent)
    const written = await world.write(parent)
    const [now] = await world.atCompute(parent, (session) =>
      session.query<{ timestamp: string }>('select clock_timestamp()::text as timestamp'),
    )
    assert.ok(now)
    await world.write(parent)
    let branch: Branch
    return {
      async request(tx) {
        const project = await lockProject(tx, parent.account_id, parent.project_id)
        assert.ok(project)
        branch = await newBranch(tx, project, parent)
        await copyRolesAndDatabases(tx, parent.id, branch.id, { withChanges: false })
        const moment = { store_id: (await world.read(parent)).store_id, target: now }
        return requestOperation(tx, createBranch, world.subjectOf(branch), { parent_id: parent.id, moment })
      },
      async finished() {
        assert.equal((await world.read(branch)).current_state, 'ready')
        await world.running(branch)
        assert.equal(await world.lastWritten(branch), written)
        await world.suspended(branch)
        world.children.push(branch)
      },
      async failed() {
        assert.equal((await world.read(branch)).current_state, 'init')
        world.children.push(branch)
      },
    }
  },
}

/** A branch with the schema of its parent. */
const schemaBranching: Case = {
  action: 'create_branch',
  about: 'create_branch of the schema only',
  steps: ['branch_stored', 'wal_replayed', 'data_removed', 'replay_stopped', 'branch_ready'],
  faultsAt: ['data_removed'],
  effectAt: 'data_removed',
  async prepare(world) {
    const parent = await world.home()
    let branch: Branch
    return {
      async request(tx) {
        const project = await lockProject(tx, parent.account_id, parent.project_id)
        assert.ok(project)
        branch = await newBranch(tx, project, parent)
        await copyRolesAndDatabases(tx, parent.id, branch.id)
        const input = { parent_id: parent.id, schema_only: true }
        return requestOperation(tx, createBranch, world.subjectOf(branch), input)
      },
      async finished() {
        assert.equal((await world.read(branch)).current_state, 'ready')
        world.children.push(branch)
      },
      async failed() {
        assert.equal((await world.read(branch)).current_state, 'init')
        world.children.push(branch)
      },
    }
  },
}

const start: Case = {
  action: 'start_compute',
  about: 'start_compute with a new role',
  steps: ['compute_answers'],
  effectAt: 'compute_answers',
  async prepare(world) {
    const branch = await world.home()
    await world.suspended(branch)
    const name = world.newName()
    return {
      async request(tx) {
        await world.addRole(tx, branch, name)
        await raiseConfigVersion(tx, branch.id)
        return queueStart(tx, await world.endpointOf(tx, branch), 'request')
      },
      finished: async () => assert.ok(await world.hasRole(branch, name)),
      failed: async () => assert.equal((await world.endpointOf(world.catalog, branch)).current_state, 'idle'),
    }
  },
}

const suspendSteps = [
  'checkpointed',
  'intent_committed',
  'proxies_hold',
  'still_idle',
  'compute_stopped',
  'endpoint_idle',
]

const suspend: Case = {
  action: 'suspend_compute',
  about: 'suspend_compute by request',
  steps: suspendSteps,
  effectAt: 'compute_stopped',
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    return {
      request: (tx) => queueSuspend(tx, endpoint, 'request'),
      finished: async () => assert.equal((await world.endpointOf(world.catalog, branch)).current_state, 'idle'),
      failed: nothing,
    }
  },
}

const idleSuspend: Case = {
  action: 'suspend_compute',
  about: 'suspend_compute of an unused endpoint',
  steps: suspendSteps,
  faultsAt: ['still_idle'],
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    // The idle loop records its check after a compute has started: wait for it, because it would overwrite this.
    await until('the idle loop has looked', async () => {
      const { idle_check_at } = await world.endpointOf(world.catalog, branch)
      return Date.parse(idle_check_at ?? '') > Date.now() + 600_000
    })
    const { counters } = await world.atCompute(branch, readActivity)
    const looked = await world.endpointOf(world.catalog, branch)
    await setIdleCheck(world.catalog, looked, { counters, idleSeconds: 0, nextSeconds: 3600 })
    return {
      request: (tx) => queueSuspend(tx, endpoint, 'idle'),
      finished: async () => assert.equal((await world.endpointOf(world.catalog, branch)).current_state, 'idle'),
      failed: nothing,
    }
  },
}

const reopening: Case = {
  action: 'suspend_compute',
  about: 'suspend_compute by the idle loop of an endpoint in use',
  steps: ['checkpointed', 'intent_committed', 'proxies_hold', 'still_idle', 'reopened'],
  faultsAt: ['reopened'],
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    const client = await world.clientInTransaction(branch)
    const goesOn = async () => {
      assert.equal((await world.endpointOf(world.catalog, branch)).compute_id, endpoint.compute_id)
      await client.query('commit')
      await client.end()
    }
    return { request: (tx) => queueSuspend(tx, endpoint, 'idle'), finished: goesOn, failed: goesOn }
  },
}

const reopeningLately: Case = {
  action: 'suspend_compute',
  about: 'suspend_compute by the idle loop after new activity',
  steps: ['checkpointed', 'intent_committed', 'proxies_hold', 'still_idle', 'reopened'],
  faultsAt: [],
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    const client = await world.clientInTransaction(branch)
    await client.query('commit')
    const time = (seconds: number) =>
      world.catalog.rows(sql`update endpoint set suspend_timeout_seconds = ${seconds} where id = ${endpoint.id}`)
    await time(3600)
    // As if the session's own statistics had not been reported yet.
    await until('its counters have come', async () => {
      const { counters } = await world.atCompute(branch, readActivity)
      const looked = await world.endpointOf(world.catalog, branch)
      await setIdleCheck(world.catalog, looked, { counters, idleSeconds: 0, nextSeconds: 3600 })
      await client.query('select pg_stat_force_next_flush()')
      return (await world.atCompute(branch, readActivity)).counters === counters
    })
    return {
      request: (tx) => queueSuspend(tx, endpoint, 'idle'),
      async finished() {
        assert.equal((await world.endpointOf(world.catalog, branch)).compute_id, endpoint.compute_id)
        await client.query('select 1')
        await client.end()
        await time(-1)
      },
      failed: nothing,
    }
  },
}

const endpointDeletion: Case = {
  action: 'suspend_compute',
  about: 'suspend_compute of a deleted endpoint',
  steps: suspendSteps,
  faultsAt: ['endpoint_idle'],
  async prepare(world) {
    const branch = await world.home()
    const endpoint = await world.running(branch)
    const gone = async () => assert.equal(await findEndpointEver(world.catalog, endpoint.id), undefined)
    return {
      async request(tx) {
        await markEndpointDeleted(tx, endpoint.id)
        return queueSuspend(tx, endpoint, 'delete')
      },
      finished: gone,
      failed: gone,
    }
  },
}

const branchDeletion: Case = {
  action: 'delete_timeline',
  about: 'delete_timeline',
  steps: ['store_removed', 'forgotten'],
  effectAt: 'store_removed',
  async prepare(world) {
    const branch = await world.child()
    return {
      async request(tx) {
        await markBranchDeleted(tx, branch.id)
        await markEndpointDeleted(tx, (await world.endpointOf(tx, branch)).id)
        return requestOperation(tx, deleteTimeline, world.subjectOf(branch), {})
      },
      finished: async () => assert.equal(await findStoredBranch(world.catalog, branch.id), undefined),
      failed: () => world.awaitRemoval(branch),
    }
  },
}

const projectDeletion: Case = {
  action: 'delete_tenant',
  about: 'delete_tenant of a project with a running compute and a second branch',
  steps: ['stores_removed'],
  effectAt: 'stores_removed',
  async prepare(world) {
    const branch = await world.project()
    await world.branchOff(branch)
    await world.running(branch)
    return {
      async request(tx) {
        await deleteProject(tx, branch.project_id)
        return requestOperation(tx, deleteTenant, { account_id: branch.account_id, project_id: branch.project_id }, {})
      },
      finished: async () => assert.deepEqual(await listStoredBranches(world.catalog, branch.project_id), []),
      failed: () => world.awaitRemoval(branch),
    }
  },
}

export const CASES: readonly Case[] = [
  creation,
  branching(false),
  branching(true),
  momentBranching,
  snapshotting,
  schemaBranching,
  anonymizing,
  ...restorations,
  ...availabilityChecks,
  start,
  suspend,
  idleSuspend,
  reopening,
  reopeningLately,
  endpointDeletion,
  ...configurations,
  ...archiving,
  branchDeletion,
  projectDeletion,
]
