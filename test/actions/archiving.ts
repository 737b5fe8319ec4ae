import assert from 'node:assert/strict'
import { setArchivePending } from '../../src/catalog/archived_branch.ts'
import type { Branch } from '../../src/catalog/branch.ts'
import type { Db } from '../../src/catalog/catalog.ts'
import type { Operation } from '../../src/catalog/operation.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { queueStart } from '../../src/operations/start_compute.ts'
import { timelineArchive } from '../../src/operations/timeline_archive.ts'
import { timelineUnarchive } from '../../src/operations/timeline_unarchive.ts'
import type { Case } from './cases.ts'
import type { World } from './world.ts'

/** A branch at rest, and the number last written to it. */
async function restingChild(world: World) {
  const branch = await world.branchOff(await world.home())
  await world.running(branch)
  const written = await world.write(branch)
  await world.suspended(branch)
  /** Its next start finds all that was written. */
  const hasItsData = async (): Promise<void> => {
    await world.running(branch)
    assert.equal((await world.read(branch)).current_state, 'ready')
    assert.equal(await world.lastWritten(branch), written)
    await world.suspended(branch)
    world.children.push(branch)
  }
  return { branch, hasItsData }
}

async function requestArchive(tx: Db, world: World, branch: Branch) {
  const operation = await requestOperation(tx, timelineArchive, world.subjectOf(branch), {})
  await setArchivePending(tx, branch.id)
  return operation
}

const archive: Case = {
  action: 'timeline_archive',
  about: 'timeline_archive',
  steps: ['data_packed', 'branch_archived'],
  effectAt: 'data_packed',
  async prepare(world) {
    const { branch, hasItsData } = await restingChild(world)
    return {
      request: (tx) => requestArchive(tx, world, branch),
      async finished() {
        assert.equal((await world.read(branch)).current_state, 'archived')
        await hasItsData()
      },
      async failed() {
        assert.equal((await world.read(branch)).current_state, 'ready')
        await hasItsData()
      },
    }
  },
}

const archiveOfWanted: Case = {
  action: 'timeline_archive',
  about: 'timeline_archive of a branch that is asked for meanwhile',
  steps: ['data_packed'],
  faultsAt: [],
  async prepare(world) {
    const { branch, hasItsData } = await restingChild(world)
    const endpoint = await world.endpointOf(world.catalog, branch)
    let start: Operation | undefined
    return {
      async request(tx) {
        const operation = await requestArchive(tx, world, branch)
        start = await queueStart(tx, endpoint, 'request')
        return operation
      },
      async settled() {
        if (start) assert.equal((await world.ended(start)).status, 'finished')
      },
      finished: hasItsData,
      failed: hasItsData,
    }
  },
}

const unarchive: Case = {
  action: 'timeline_unarchive',
  about: 'timeline_unarchive',
  steps: ['data_unpacked', 'branch_ready'],
  effectAt: 'data_unpacked',
  async prepare(world) {
    const { branch, hasItsData } = await restingChild(world)
    await world.runOperation((tx) => requestArchive(tx, world, branch))
    return {
      request: (tx) => requestOperation(tx, timelineUnarchive, world.subjectOf(branch), {}),
      finished: hasItsData,
      failed: hasItsData,
    }
  },
}

export const archiving: readonly Case[] = [archive, archiveOfWanted, unarchive]
