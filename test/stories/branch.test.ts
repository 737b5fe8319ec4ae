import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { superuser } from '../admin.ts'
import { query, without } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, endpointOf, firstPlace, operationsOf, type Place, suspend } from '../project.ts'
import { type Audit, audit, openBank, startTransfers } from './bank.ts'

/* Branches of a bank under load, and of an idle one. */

let neap: Neap
let parent: Place
let opened: Audit

before(async () => {
  neap = await startNeap()
  parent = await firstPlace(neap)
  await openBank(neap, parent.uri)
  opened = await audit(neap, parent.uri)
  assert.ok(opened.consistent)
})

after(() => neap?.stop())

const skip = without('pgbench')

test('a branch of a running parent under load is consistent and independent of it', { skip }, async (t) => {
  const load = await startTransfers(neap, parent.uri)
  t.after(() => load.stop())
  const before_branch = await load.made()
  const child = await branchOff(neap, parent)
  const after_branch = await load.made()
  const copied = await audit(neap, child.uri)
  assert.ok(after_branch > before_branch, 'the load went on meanwhile')
  assert.equal(await load.stop(), undefined, 'the load was not disturbed')

  assert.ok(copied.consistent)
  assert.equal(copied.frozen, opened.frozen)
  assert.ok(copied.transfers >= before_branch && copied.transfers <= after_branch, 'it is of the time of the request')
  assert.deepEqual(await audit(neap, child.uri), copied)
  const transfers = 'select id, debit, credit, amount from transfer order by id'
  const kept = await query<{ id: string }>(neap, child.uri, transfers)
  const original = new Map(
    (await query<{ id: string }>(neap, parent.uri, transfers)).map((row) => [row.id, JSON.stringify(row)]),
  )
  assert.deepEqual(
    kept.filter((row) => original.get(row.id) !== JSON.stringify(row)),
    [],
    'each of its transfers was made at the parent',
  )

  const before_writes = await audit(neap, parent.uri)
  await query(neap, child.uri, `update frozen set payload = 'child'; create table of_child ()`)
  assert.deepEqual(await audit(neap, parent.uri), before_writes)
  const changed = await audit(neap, child.uri)
  await query(neap, parent.uri, `delete from frozen where id % 2 = 0; create table of_parent ()`)
  assert.deepEqual(await audit(neap, child.uri), changed)
  const tables = `select relname from pg_class where relname like 'of\\_%'`
  assert.deepEqual(await query(neap, child.uri, tables), [{ relname: 'of_child' }])
  assert.deepEqual(await query(neap, parent.uri, tables), [{ relname: 'of_parent' }])
})

test('a branch of an idle parent has its data and does not wake it', async () => {
  const was = await audit(neap, parent.uri)
  await suspend(neap, parent)
  const child = await branchOff(neap, parent)
  assert.deepEqual(await audit(neap, child.uri), was)
  assert.equal((await endpointOf(neap, parent)).current_state, 'idle')
  const starts = (await operationsOf(neap, parent)).filter(({ action }) => action === 'start_compute')
  assert.equal(starts[0]?.endpoint_id, child.endpoint_id)
  assert.deepEqual(await audit(neap, parent.uri), was)
})

test('clones of a parent that makes checkpoints all the time are consistent', { skip }, async (t) => {
  const load = await startTransfers(neap, parent.uri)
  t.after(() => load.stop())
  const admin = await superuser(neap, parent)
  let stop = false
  const checkpoints = (async () => {
    while (!stop) await admin.query('checkpoint')
  })()
  for (let clone = 0; clone < 5; clone++) {
    const child = await branchOff(neap, parent)
    assert.ok((await audit(neap, child.uri)).consistent)
    const { project_id, branch_id } = child
    await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params: { project_id, branch_id } })
  }
  stop = true
  await checkpoints
  await admin.end()
  await load.stop()
  assert.ok((await audit(neap, parent.uri)).consistent)
})
