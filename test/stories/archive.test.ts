import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, type Place, suspend } from '../project.ts'

/* A branch that is not used is archived, and any use brings it back. */

let neap: Neap
let main: Place
let place: Place
let hash: string | undefined
let moment: string
let momentHash: string | undefined

const SECONDS = { NEAP_ARCHIVE_AFTER: '1', NEAP_ARCHIVE_UNUSED: '1' }

before(async () => {
  neap = await startNeap({ env: { ...SECONDS, NEAP_BRANCH_RECOVER_HOURS: '168' } })
  main = await firstPlace(neap)
  place = await branchOff(neap, main)
  await query(neap, place.uri, 'create table kept as select i, md5(i::text) from generate_series(1, 20000) i')
  momentHash = await hashOf(place)
  const [now] = await query<{ now: string }>(neap, place.uri, 'select clock_timestamp()::text as now')
  moment = new Date(now?.now ?? '').toISOString()
  await query(neap, place.uri, 'select pg_sleep(1)')
  await query(neap, place.uri, 'insert into kept select i, md5(i::text) from generate_series(20001, 30000) i')
  hash = await hashOf(place)
  assert.notEqual(hash, momentHash)
})

after(() => neap?.stop())

async function hashOf({ uri }: Place): Promise<string | undefined> {
  const [row] = await query<{ hash: string }>(
    neap,
    uri,
    `select md5(string_agg(k::text, '|' order by i)) as hash from kept k`,
  )
  return row?.hash
}

async function branchAt({ project_id, branch_id }: Place) {
  const params = { project_id, branch_id }
  return (await neap.call('GET /projects/:project_id/branches/:branch_id', { params })).branch
}

const dataOf = ({ branch_id }: Place): string => join(neap.ready.data_dir, 'branches', branch_id, 'pgdata')

/** Waits until a branch is archived. */
async function archived(at: Place): Promise<void> {
  await until('it is archived', async () => {
    const { current_state, pending_state } = await branchAt(at)
    return current_state === 'archived' && pending_state === undefined
  })
  assert.ok(!existsSync(dataOf(at)))
}

async function remove({ project_id, branch_id }: Place, hard_delete: boolean): Promise<void> {
  const params = { project_id, branch_id }
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params,
    query: { hard_delete },
  })
  await neap.ended(operations)
}

test('an unused branch is archived, and the next connection has its rows', async () => {
  await suspend(neap, place)
  await archived(place)
  const { data_dir } = neap.ready
  const env = envOf(data_dir)
  const { stdout } = await neapRun(['branches', 'list', '--data-dir', data_dir], env)
  assert.match(stdout, new RegExp(`${place.branch_id}.*archived`))

  assert.equal(await hashOf(place), hash)
  assert.equal((await branchAt(place)).current_state, 'ready')
  assert.ok(existsSync(dataOf(place)))
})

test('a branch made of an archived one has its rows, and so has one of its moments', async () => {
  await suspend(neap, place)
  await archived(place)
  const child = await branchOff(neap, place)
  assert.equal(await hashOf(child), hash)
  await remove(child, true)

  await archived(place)
  const { branch, endpoints, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: place.project_id },
    body: { branch: { parent_id: place.branch_id, parent_timestamp: moment }, endpoints: [{ type: 'read_write' }] },
  })
  await neap.ended(operations)
  const endpoint_id = endpoints[0]?.id ?? ''
  const uri = place.uri.replace(place.endpoint_id, endpoint_id)
  const past: Place = { ...place, branch_id: branch.id, endpoint_id, uri }
  assert.equal(await hashOf(past), momentHash)
  // The parent of a branch is not archived.
  assert.equal((await branchAt(place)).current_state, 'ready')
  await remove(past, true)
})

test('a branch that was deleted while it was archived is recovered with its rows', async () => {
  await archived(place)
  await remove(place, false)
  const { project_id, branch_id } = place
  const params = { project_id, branch_id }
  await neap.call('POST /projects/:project_id/branches/:branch_id/recover', { params })
  assert.equal(await hashOf(place), hash)
})

test('an archived branch is deleted for good', async () => {
  await suspend(neap, place)
  await archived(place)
  await remove(place, true)
  assert.ok(!existsSync(join(dataOf(place), '..')))
})
