import assert from 'node:assert/strict'
import type { Branch } from '../../src/catalog/branch.ts'
import { copyRolesAndDatabases } from '../../src/catalog/branch_config.ts'
import { insertCopy } from '../../src/catalog/restore.ts'
import { newBranchId } from '../../src/ids.ts'
import { createBranch } from '../../src/operations/create_branch.ts'
import { requestOperation } from '../../src/operations/request.ts'
import type { Case } from './cases.ts'
import type { World } from './world.ts'

/** The second half of a restore: the copy of the source exists, and the branch takes over its data. */
const restoration = (from: 'another branch' | 'itself'): Case => ({
  action: 'create_branch',
  about: `create_branch that restores a branch from ${from}`,
  steps: ['branch_stored', 'compute_stopped', 'data_exchanged'],
  ...(from === 'itself'
    ? { faultsAt: [] }
    : { faultsAt: ['compute_stopped', 'data_exchanged'], effectAt: 'compute_stopped' }),
  async prepare(world) {
    const branch = await world.target()
    const before = await world.read(branch)
    const source = from === 'itself' ? branch : await world.home()
    const its = from === 'itself' ? undefined : await marked(world, source)
    const old = await marked(world, branch)
    const copy = await copyOf(world, source, branch)
    return {
      async request(tx) {
        return requestOperation(tx, createBranch, world.subjectOf(branch), { parent_id: source.id, copy_id: copy.id })
      },
      async finished() {
        const { parent_id, store_id } = await world.read(branch)
        assert.equal(parent_id, from === 'itself' ? copy.id : source.id)
        assert.equal(store_id, from === 'itself' ? before.store_id : copy.id)
        assert.equal((await world.read(copy)).parent_id, before.parent_id)
        assert.equal(await markOf(world, branch), its ?? old)
        assert.equal(await markOf(world, copy), old)
        await world.suspended(copy)
        world.children.push(copy)
      },
      async failed() {
        assert.equal((await world.read(branch)).store_id, before.store_id)
        assert.equal(await markOf(world, branch), old)
        await world.awaitRemoval(copy)
      },
    }
  },
})

/** Creates the copy of the source whose data the branch is to take over. */
async function copyOf(world: World, source: Branch, branch: Branch): Promise<Branch> {
  let copy: Branch | undefined
  await world.runOperation(async (tx) => {
    const id = newBranchId()
    copy = await insertCopy(tx, { id, source, branch: await world.read(branch), name: `kept ${id}` })
    await copyRolesAndDatabases(tx, source.id, id)
    return requestOperation(tx, createBranch, world.subjectOf(copy), { parent_id: source.id, restores: branch.id })
  })
  return copy as Branch
}

let marks = 0

/** Writes a unique mark into a branch, and leaves its compute running. */
async function marked(world: World, branch: Branch): Promise<string> {
  const mark = `mark ${++marks}`
  await world.running(branch)
  await world.atCompute(branch, (session) => session.query(`comment on database neap is '${mark}'`))
  return mark
}

async function markOf(world: World, branch: Branch): Promise<string | undefined> {
  await world.running(branch)
  const [row] = await world.atCompute(branch, (session) =>
    session.query<{ mark: string }>(
      `select shobj_description(oid, 'pg_database') as mark from pg_database where datname = 'neap'`,
    ),
  )
  return row?.mark
}

export const restorations: readonly Case[] = [restoration('another branch'), restoration('itself')]
