import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { envOf, leaveNothing, type Neap, neapRun, newDataDir, startNeap } from '../neap.ts'
import { branchOff, firstPlace, operationsOf, type Place, suspend } from '../project.ts'

/* The embedded catalog is replaced by a backup of its files; the data of branches stays as it is. */

const dataDir = newDataDir()
const backup = join(dataDir, 'backup')
const [catalog, note] = [join(dataDir, 'catalog'), join(dataDir, 'installation')]
let neap: Neap
let place: Place
let later: Place

before(async () => {
  neap = await startNeap({ dataDir })
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table kept as select 7 as value')
  await neap.stop({ keep: true })
  execFileSync('cp', ['-a', catalog, backup])
  neap = await startNeap({ dataDir })
  later = await branchOff(neap, place)
  await addRole('before')
  for (let round = 0; round < 3; round++) {
    await kept()
    await suspend(neap, place)
  }
})

after(async () => {
  await neap?.end()
  await leaveNothing(dataDir)
})

const kept = () => query(neap, place.uri, 'select value from kept')
const pgdata = (id: string) => join(dataDir, 'branches', id, 'pgdata')
const epoch = async () =>
  Number((await catalogQuery<{ epoch: string }>(neap, 'select epoch from installation'))[0]?.epoch)

async function addRole(name: string): Promise<string> {
  const { role, operations } = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', {
    params: place,
    body: { role: { name } },
  })
  await neap.ended(operations)
  return role.password ?? ''
}

async function startOnBackup({ noted = true } = {}): Promise<void> {
  await neap.stop({ keep: true })
  if (!noted) rmSync(note)
  rmSync(catalog, { recursive: true })
  execFileSync('cp', ['-a', backup, catalog])
  neap = await startNeap({ dataDir })
}

async function unknown(): Promise<string[]> {
  const { code, stdout, stderr } = await neapRun(['catalog', 'unknown', '--json'], envOf(dataDir))
  assert.equal(code, 0, stderr)
  return (JSON.parse(stdout) as { stores: { id: string }[] }).stores.map(({ id }) => id)
}

test('after a restore of an older catalog branches serve, and unknown data is listed and stays', async () => {
  assert.deepEqual([await epoch(), await unknown()], [0, []])
  await startOnBackup()
  assert.deepEqual([await epoch(), await unknown()], [1, [later.branch_id]])
  assert.deepEqual(await kept(), [{ value: 7 }])
  const failed = (await operationsOf(neap, place)).filter(({ status }) => status === 'failed')
  assert.deepEqual(failed, [])
  assert.ok(existsSync(pgdata(later.branch_id)))
  const made = await branchOff(neap, place)
  const [uid, others] = [statSync(pgdata(made.branch_id)).uid, statSync(pgdata(later.branch_id)).uid]
  if (process.getuid?.() === 0) assert.notEqual(uid, others)
})

test('after a restore of an older catalog new roles are made', async () => {
  const url = new URL(place.uri)
  Object.assign(url, { username: 'after', password: await addRole('after') })
  assert.deepEqual(await query(neap, url.href, 'select current_user'), [{ current_user: 'after' }])
})

test('a directory without a note of the catalog is found to be ahead by the first start that it refuses', async () => {
  await startOnBackup({ noted: false })
  assert.deepEqual(await kept(), [{ value: 7 }])
  // The disk is at 1 since the restore before.
  assert.ok((await epoch()) > 1)
})

test('a data directory of another installation is refused until it is adopted', async () => {
  await neap.stop({ keep: true })
  writeFileSync(note, readFileSync(note, 'utf8').replace(/^.{8}/, '01234567'))
  await assert.rejects(startNeap({ dataDir }), /belong to another installation .* npx neap catalog adopt --data-dir/)
  const { code, stderr } = await neapRun(['catalog', 'adopt', '--yes'], envOf(dataDir))
  assert.equal(code, 0, stderr)
  neap = await startNeap({ dataDir })
  assert.deepEqual(await kept(), [{ value: 7 }])
})
