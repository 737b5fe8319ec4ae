import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { lchownSync, lstatSync, readdirSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { leaveNothing, type Neap, newDataDir, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, newProject, type Place } from '../project.ts'

/* Whose files a data directory holds: one uid for each branch, wherever the directory is moved or restored to. */

const skip = process.getuid?.() !== 0 && 'only as root has each compute a uid of its own'

let dataDir = newDataDir()
let neap: Neap
let place: Place

before(async () => {
  if (skip) return
  neap = await startNeap({ dataDir })
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table kept as select 7 as value')
})

after(async () => {
  if (skip) return
  await neap?.end()
  await leaveNothing(dataDir)
})

const pgdata = (id: string) => join(dataDir, 'branches', id, 'pgdata')
const uidOf = (id: string) => statSync(pgdata(id)).uid
const catalogUid = () => statSync(join(dataDir, 'catalog/pgdata')).uid
const branchIds = () => readdirSync(join(dataDir, 'branches'))
const kept = (where: Place) => query(neap, where.uri, 'select value from kept')

/** The uids of all files below a path. */
function ownersBelow(path: string): Set<number> {
  const files = readdirSync(path, { recursive: true, encoding: 'utf8' })
  // A running server removes files meanwhile.
  const found = ['', ...files].map((file) => lstatSync(join(path, file), { throwIfNoEntry: false })?.uid)
  return new Set(found.filter((uid) => uid !== undefined))
}

test('no branch has the uid of the catalog or of another branch, whatever their numbers', { skip }, async () => {
  const [row] = await catalogQuery<{ number: string }>(neap, 'select number from store')
  for (const number of [2 ** 18, Number(row?.number) + 2 ** 18]) {
    await catalogQuery(neap, `select setval(pg_get_serial_sequence('store', 'number'), ${number}, false)`)
    const made = await branchOff(neap, place)
    assert.deepEqual(await kept(made), [{ value: 7 }])
  }
  const uids = [catalogUid(), ...branchIds().map(uidOf)]
  assert.equal(new Set(uids).size, uids.length, String(uids))
})

test('branches of an earlier Neap with one uid have one each after the next starts', { skip }, async () => {
  const [twin, other] = [await branchOff(neap, place), await branchOff(neap, place)]
  await catalogQuery(neap, 'delete from store_uid')
  await neap.stop({ keep: true })
  const shared = uidOf(place.branch_id)
  const give = (id: string, uid: number) => {
    const files = readdirSync(pgdata(id), { recursive: true, encoding: 'utf8' })
    for (const file of ['', ...files]) lchownSync(join(pgdata(id), file), uid, uid)
  }
  give(twin.branch_id, shared)
  give(other.branch_id, catalogUid())
  neap = await startNeap({ dataDir })
  for (const each of [twin, place, other]) assert.deepEqual(await kept(each), [{ value: 7 }])
  const uids = [catalogUid(), ...[place, twin, other].map(({ branch_id }) => uidOf(branch_id))]
  assert.deepEqual([new Set(uids).size, uidOf(place.branch_id)], [4, shared])
  for (const { branch_id } of [twin, other]) assert.deepEqual([...ownersBelow(pgdata(branch_id))], [uidOf(branch_id)])
})

test('a data directory that was moved serves, and gives no uid of its earlier place', { skip }, async () => {
  await neap.stop({ keep: true })
  const earlier = dataDir
  dataDir = `${dataDir}-moved`
  renameSync(earlier, dataDir)
  neap = await startNeap({ dataDir })
  assert.deepEqual(await kept(place), [{ value: 7 }])
  const made = await newProject(neap)
  await query(neap, made.uri, 'select 1')
  const range = (uid: number) => Math.floor(uid / 2 ** 18)
  assert.deepEqual(
    [place.branch_id, made.branch_id].map((id) => range(uidOf(id))),
    [range(catalogUid()), range(catalogUid())],
  )
})

test('a data directory whose files all belong to root, as after a restore, serves', { skip }, async () => {
  await neap.stop({ keep: true })
  // As a backup without owners is restored.
  execFileSync('chown', ['-hR', '0:0', dataDir])
  neap = await startNeap({ dataDir })
  assert.deepEqual(await kept(place), [{ value: 7 }])
  assert.deepEqual([...ownersBelow(pgdata(place.branch_id))], [uidOf(place.branch_id)])
  assert.notEqual(uidOf(place.branch_id), 0)
})

test('a branch for which no uid is left waits until another is deleted', { skip }, async () => {
  await neap.stop({ keep: true })
  neap = await startNeap({ dataDir, env: { NEAP_UIDS: '300000-300001' } })
  assert.deepEqual(await kept(place), [{ value: 7 }])
  assert.deepEqual([catalogUid(), uidOf(place.branch_id)], [300_000, 300_001])
  const { operations } = await neap.call('POST /projects', { body: { project: {} } })
  const [making] = operations
  assert.ok(making)
  const params = { project_id: making.project_id, operation_id: making.id }
  await until('it says why it waits', async () => {
    const { operation } = await neap.call('GET /projects/:project_id/operations/:operation_id', { params })
    return /all of its uids, 300000-300001: name a larger range in NEAP_UIDS/.test(operation.error ?? '')
  })
  await neap.call('DELETE /projects/:project_id', { params: place })
  await neap.ended(operations)
})
