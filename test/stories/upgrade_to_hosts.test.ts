import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { checkOut, withoutCommit } from '../earlier_neap.ts'
import { leaveNothing, type Neap, newDataDir, startNeap } from '../neap.ts'
import { kill, postmastersOf, processesOf } from '../processes.ts'
import { branchOff, computeOf, firstPlace, type Place, settled, suspend } from '../project.ts'

/*
 * This version serves a data directory of the last Neap whose catalog had no hosts, stores and computes of their own:
 * computes that run are adopted as they are, and stores that a restore had exchanged stay exchanged.
 */

const EARLIER = 'e945acd'
const FIRST_MIGRATION = '0019_hosts.sql'

interface Made {
  readonly running: Place
  readonly resting: Place
  /** Restored from `running`; its former data is kept under a name. */
  readonly restored: Place
}

const noteOf = ({ endpoint_id }: Place) => [{ line: `of ${endpoint_id}` }]

async function fill(neap: Neap): Promise<Made> {
  const running = await firstPlace(neap)
  await query(neap, running.uri, 'create table kept (line text)')
  const [resting, restored, removed] = [
    await branchOff(neap, running),
    await branchOff(neap, running),
    await branchOff(neap, running),
  ]
  for (const place of [running, resting, restored])
    await query(neap, place.uri, `insert into kept values ('of ${place.endpoint_id}')`)
  const params = { project_id: running.project_id, branch_id: restored.branch_id }
  const body = { source_branch_id: running.branch_id, preserve_under_name: 'before' }
  const { operations } = await neap.call('POST /projects/:project_id/branches/:branch_id/restore', { params, body })
  await neap.ended(operations)
  const deleted = await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { ...params, branch_id: removed.branch_id },
  })
  await neap.ended(deleted.operations)
  await suspend(neap, resting)
  for (const place of [running, restored]) {
    await query(neap, place.uri, 'select 1')
    await settled(neap, place, 'active')
  }
  return { running, resting, restored }
}

async function expectServed(neap: Neap, { running, resting, restored }: Made): Promise<void> {
  assert.deepEqual(await query(neap, running.uri, 'select line from kept'), noteOf(running))
  assert.deepEqual(await query(neap, resting.uri, 'select line from kept'), noteOf(resting))
  assert.deepEqual(await query(neap, restored.uri, 'select line from kept'), noteOf(running))
  const { branches } = await neap.call('GET /projects/:project_id/branches', {
    params: { project_id: running.project_id },
    query: { limit: 100 },
  })
  const before = branches.find(({ name }) => name === 'before') ?? assert.fail('the kept data has no branch')
  const again = await branchOff(neap, { ...running, branch_id: before.id })
  assert.deepEqual(await query(neap, again.uri, 'select line from kept'), noteOf(restored))
}

async function expectRows(neap: Neap, { running, resting, restored }: Made): Promise<void> {
  const host = readFileSync(join(neap.ready.data_dir, 'host'), 'utf8').trim()
  const hosts = await catalogQuery<{ id: string }>(neap, 'select id from host')
  assert.deepEqual(hosts, [{ id: host }])
  const stores = await catalogQuery<{ id: string; branch_id: string; host_id: string; state: string }>(
    neap,
    'select s.id, s.branch_id, s.host_id, s.state from store s join branch b on b.store_id = s.id order by s.number',
  )
  // The deleted branch has none; two of the four are exchanged.
  assert.equal(stores.length, 4)
  assert.ok(stores.every(({ host_id, state }) => host_id === host && state === 'ready'))
  const storeOf = (place: Place) => stores.find(({ branch_id }) => branch_id === place.branch_id)?.id
  assert.deepEqual([storeOf(running), storeOf(resting)], [running.branch_id, resting.branch_id])
  assert.notEqual(storeOf(restored), restored.branch_id)
}

test(
  'a killed Neap without hosts is upgraded, and its running computes are adopted',
  { todo: withoutCommit(EARLIER) },
  async (t) => {
    const { earlier, dataDir, made } = await makeEarlier(t)
    const before = postmastersOf(dataDir).map(({ pid }) => pid)
    const neap = await startNeap({ dataDir })
    await expectRows(neap, made)
    for (const place of [made.running, made.restored]) {
      const { pid } = (await computeOf(neap, place)) ?? {}
      assert.ok(before.includes(pid ?? 0), 'its compute is the one that ran')
    }
    await expectServed(neap, made)
    const computes = await catalogQuery<{ id: string; ended_at: string | null }>(
      neap,
      `select id, ended_at from compute where endpoint_id = '${made.running.endpoint_id}'`,
    )
    assert.deepEqual(
      computes.map(({ id, ended_at }) => [id.slice(0, 4), ended_at]),
      [['pid-', null]],
    )
    await suspend(neap, made.running)
    await expectServed(neap, made)
    await neap.stop({ keep: true })
    earlier.remove()
  },
)

test(
  'a Neap without hosts that was killed with its computes is upgraded',
  { todo: withoutCommit(EARLIER) },
  async (t) => {
    const { dataDir, made } = await makeEarlier(t)
    await kill(...processesOf(dataDir).map(({ pid }) => pid))
    const neap = await startNeap({ dataDir })
    await expectRows(neap, made)
    await expectServed(neap, made)
    await neap.stop({ keep: true })
  },
)

async function makeEarlier(t: { after(work: () => Promise<void> | void): void }) {
  const earlier = checkOut(EARLIER, {})
  t.after(() => earlier.remove())
  const dataDir = newDataDir()
  t.after(async () => {
    await kill(...processesOf(dataDir).map(({ pid }) => pid))
    await leaveNothing(dataDir)
  })
  const neap = await startNeap({ dataDir, program: earlier.program })
  const made = await fill(neap)
  const applied = await catalogQuery<{ name: string }>(neap, 'select name from migration')
  assert.ok(applied.every(({ name }) => name < FIRST_MIGRATION))
  await neap.kill()
  return { earlier, dataDir, made }
}
