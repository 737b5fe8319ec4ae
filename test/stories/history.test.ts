import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, enableReplication, firstPlace, newProject, type Place, suspend } from '../project.ts'

/* Branches are made of a moment of their parent, and restored to one: that commit is in, the next one is not. */

let neap: Neap
let main: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_HISTORY_MB: '32' } })
  main = await firstPlace(neap)
  await query(neap, main.uri, 'create table entry (id int primary key, at timestamptz)')
})

after(() => neap?.stop())

interface Commit {
  readonly id: number
  /** After its commit, and before the next one. */
  readonly at: string
  readonly lsn: string
}

let entries = 0

/** Commits an entry, and returns a moment after it. */
async function commit(place: Place): Promise<Commit> {
  const id = ++entries
  await query(neap, place.uri, `insert into entry values (${id}, clock_timestamp())`)
  const [now] = await query<{ at: string; lsn: string }>(
    neap,
    place.uri,
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
            pg_current_wal_lsn()::text as lsn`,
  )
  assert.ok(now)
  return { id, ...now }
}

type Moment = { parent_timestamp: string } | { parent_lsn: string }

/** Creates a branch with an endpoint as its parent was at a moment. */
async function branchAt(parent: Place, moment: Moment): Promise<Place> {
  const { branch, endpoints, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: parent.project_id },
    body: { branch: { parent_id: parent.branch_id, ...moment }, endpoints: [{ type: 'read_write' }] },
  })
  await neap.ended(operations)
  const endpoint_id = endpoints[0]?.id ?? ''
  const uri = parent.uri.replace(parent.endpoint_id, endpoint_id)
  return { project_id: parent.project_id, branch_id: branch.id, endpoint_id, uri }
}

const remove = async ({ project_id, branch_id }: Place): Promise<void> => {
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', {
    params: { project_id, branch_id },
  })
  await neap.ended(operations)
}

const idsOf = async ({ uri }: Place): Promise<number[]> =>
  (await query<{ id: number }>(neap, uri, 'select id from entry order by id')).map(({ id }) => id)

/** The ids from the first one of a history to that of a commit. */
const upto = (all: readonly Commit[], { id }: Commit): number[] =>
  all.map((each) => each.id).filter((each) => each <= id)

async function restore({ project_id, branch_id }: Place, body: object) {
  const answer = await send(neap, 'POST', `/projects/${project_id}/branches/${branch_id}/restore`, { body })
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  const { operations } = answer.body as { operations: { id: string; project_id: string }[] }
  await neap.ended(operations)
}

test('a branch has the commits until its moment, of a running parent and of a sleeping one', async () => {
  const commits = [await commit(main), await commit(main), await commit(main)]
  for (const each of commits.slice(0, 2))
    for (const moment of [{ parent_timestamp: each.at }, { parent_lsn: each.lsn }]) {
      const child = await branchAt(main, moment)
      assert.deepEqual(await idsOf(child), upto(commits, each), JSON.stringify(moment))
      await remove(child)
    }
  await suspend(neap, main)
  const last = commits[2] as Commit
  for (const each of [commits[0] as Commit, last])
    for (const moment of [{ parent_timestamp: each.at }, { parent_lsn: each.lsn }]) {
      const child = await branchAt(main, moment)
      assert.deepEqual(await idsOf(child), upto(commits, each), JSON.stringify(moment))
      await remove(child)
    }
  assert.deepEqual(await idsOf(main), upto(commits, last))
})

test('a moment before a branch was made is one of its parent', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key, at timestamptz)')
  const early = [await commit(place), await commit(place)]
  const child = await branchOff(neap, place)
  const own = [...early, await commit(child), await commit(child)]
  await commit(place)
  const grandchild = await branchOff(neap, child)
  const all = [...own, await commit(grandchild), await commit(grandchild)]
  for (const each of all.slice(0, -1)) {
    const made = await branchAt(grandchild, { parent_timestamp: each.at })
    assert.deepEqual(await idsOf(made), upto(all, each), `commit ${each.id}`)
    await remove(made)
  }
})

test('a branch made of a moment has its roles with the passwords of now, and later a history', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key, at timestamptz)')
  const params = { project_id: place.project_id, branch_id: place.branch_id }
  const first = await commit(place)
  const made = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', {
    params,
    body: { role: { name: 'late' } },
  })
  await neap.ended(made.operations)
  const second = await commit(place)
  const reset = await neap.call('POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password', {
    params: { ...params, role_name: 'late' },
  })
  await neap.ended(reset.operations)
  const early = await branchAt(place, { parent_timestamp: first.at })
  const rolesOf = async (branch_id: string) =>
    (
      await neap.call('GET /projects/:project_id/branches/:branch_id/roles', { params: { ...params, branch_id } })
    ).roles.map(({ name }) => name)
  assert.ok((await rolesOf(place.branch_id)).includes('late'))
  assert.ok(!(await rolesOf(early.branch_id)).includes('late'))
  const third = await commit(early)
  await commit(early)
  const later = await branchAt(early, { parent_timestamp: third.at })
  assert.deepEqual(await idsOf(later), [first.id, third.id])
  const again = await branchAt(place, { parent_lsn: second.lsn })
  const uri = Object.assign(new URL(again.uri), { username: 'late', password: reset.role.password }).href
  assert.deepEqual(await query(neap, uri, 'select current_user'), [{ current_user: 'late' }])
})

test('a branch is restored to its own past, with its present kept, and later to a moment before that', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key, at timestamptz)')
  const commits = [await commit(place), await commit(place), await commit(place)]
  const [first, second, third] = commits as [Commit, Commit, Commit]
  const source_branch_id = place.branch_id
  await restore(place, { source_branch_id, source_timestamp: second.at, preserve_under_name: 'present' })
  assert.deepEqual(await idsOf(place), [first.id, second.id])
  const fourth = await commit(place)
  await commit(place)
  await restore(place, { source_branch_id, source_timestamp: fourth.at, preserve_under_name: 'second' })
  assert.deepEqual(await idsOf(place), [first.id, second.id, fourth.id])
  await restore(place, { source_branch_id, source_timestamp: third.at, preserve_under_name: 'third' })
  assert.deepEqual(await idsOf(place), upto(commits, third))
})

/** Writes so much WAL that a base is due, and waits for it. */
async function fillUntilBase(place: Place, number: number): Promise<void> {
  await query(neap, place.uri, 'create table if not exists filler (text text)')
  const fill = `insert into filler select repeat(md5(i::text), 20) from generate_series(1, 12000) i`
  await until(`base ${number} is made`, async () => {
    await query(neap, place.uri, fill)
    await query(neap, place.uri, 'truncate filler')
    return existsSync(historyOf(place, `bases/${number}`))
  })
}

const historyOf = ({ branch_id }: Place, path: string): string => `${neap.ready.data_dir}/branches/${branch_id}/${path}`

test('a schema-only branch of a restored one has moments of its own', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key, at timestamptz)')
  const early = await commit(place)
  await commit(place)
  const itself = { source_branch_id: place.branch_id, source_timestamp: early.at, preserve_under_name: 'before' }
  await restore(place, itself)
  assert.deepEqual(await idsOf(place), [early.id])

  const { project_id } = place
  const { branch, endpoints, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id },
    body: { branch: { parent_id: place.branch_id, init_source: 'schema-only' }, endpoints: [{ type: 'read_write' }] },
  })
  await neap.ended(operations)
  const endpoint_id = endpoints[0]?.id ?? ''
  const uri = place.uri.replace(place.endpoint_id, endpoint_id)
  const empty = { project_id, branch_id: branch.id, endpoint_id, uri }
  assert.deepEqual(await idsOf(empty), [])
  await until('its history has begun', async () => {
    const params = { project_id, branch_id: branch.id }
    return (await neap.call('GET /projects/:project_id/branches/:branch_id/history', { params })).since
  })
  const commits = [await commit(empty), await commit(empty)]
  for (const each of commits) {
    const made = await branchAt(empty, { parent_timestamp: each.at })
    assert.deepEqual(await idsOf(made), upto(commits, each))
    await remove(made)
  }
})

test('a base is made when much was written, and moments before and after it are reached', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key, at timestamptz)')
  const commits = [await commit(place)]
  for (const number of [1, 2]) {
    await fillUntilBase(place, number)
    commits.push(await commit(place), await commit(place))
  }
  for (const each of commits) {
    const made = await branchAt(place, { parent_timestamp: each.at })
    assert.deepEqual(await idsOf(made), upto(commits, each), `commit ${each.id}`)
    await remove(made)
  }
})

test('history past its retention is removed, but for the part that a child was made of', async () => {
  const place = await newProject(neap)
  const { project_id } = place
  const table = 'create table entry (id int primary key, at timestamptz)'
  await query(neap, place.uri, table)
  const commits = [await commit(place)]
  const child = await branchOff(neap, place)
  const own = [...commits, await commit(child), await commit(child)]
  await neap.call('PATCH /projects/:project_id', {
    params: { project_id },
    body: { project: { history_retention_seconds: 1 } },
  })
  for (const number of [1, 2, 3]) await fillUntilBase(place, number)
  await until('the first base has expired', async () => !existsSync(historyOf(place, 'bases/1')))
  assert.ok(existsSync(historyOf(place, 'wal/000000010000000000000001.zst')))
  await neap.call('PATCH /projects/:project_id', {
    params: { project_id },
    body: { project: { history_retention_seconds: 3600 } },
  })
  const [, second] = own as [Commit, Commit]
  const made = await branchAt(child, { parent_timestamp: second.at })
  assert.deepEqual(await idsOf(made), upto(own, second))
  const body = { branch: { parent_id: place.branch_id, parent_timestamp: commits[0]?.at } }
  const refusal = await send(neap, 'POST', `/projects/${project_id}/branches`, { body })
  assert.equal(refusal.status, 422, JSON.stringify(refusal.body))
})

test('the history begins anew, with a base, when WAL was lost', async () => {
  const place = await newProject(neap)
  await enableReplication(neap, place)
  await query(neap, place.uri, 'create table entry (id int primary key, at timestamptz)')
  const lost = await commit(place)
  await query(neap, place.uri, "select pg_drop_replication_slot('neap_history')")
  await query(neap, place.uri, 'select pg_switch_wal()').catch(() => undefined)
  await fillUntilBase(place, 1)
  const kept = await until('there are moments again', async () => {
    const found = await commit(place)
    const body = { branch: { parent_id: place.branch_id, parent_timestamp: found.at } }
    const answer = await send(neap, 'POST', `/projects/${place.project_id}/branches`, { body })
    return answer.status === 201 && found
  })
  const made = await branchAt(place, { parent_timestamp: kept.at })
  assert.equal((await idsOf(made)).at(-1), kept.id)
  const body = { branch: { parent_id: place.branch_id, parent_timestamp: lost.at } }
  const answer = await send(neap, 'POST', `/projects/${place.project_id}/branches`, { body })
  refused(answer, 422, 'NOT_ALLOWED', /before the history/)
})

test('a branch that was given other data is asked for its own past only', async () => {
  const place = await newProject(neap)
  await query(neap, place.uri, 'create table entry (id int primary key, at timestamptz)')
  await commit(place)
  const child = await branchOff(neap, place)
  const early = await commit(child)
  await commit(place)
  await restore(child, { source_branch_id: place.branch_id, preserve_under_name: 'early' })
  const kept = await branchAt(child, { parent_timestamp: early.at })
  assert.equal((await idsOf(kept)).at(-1), early.id)
  const other = await branchOff(neap, place)
  const gone = await commit(other)
  await restore(other, { source_branch_id: place.branch_id })
  const body = { branch: { parent_id: other.branch_id, parent_timestamp: gone.at } }
  const answer = await send(neap, 'POST', `/projects/${place.project_id}/branches`, { body })
  refused(answer, 422, 'NOT_ALLOWED', /before a restore of the branch/)
})

test('a moment that is not in the history is refused, with the moments that are', async () => {
  const { project_id, branch_id } = main
  const [now] = await query<{ lsn: string }>(neap, main.uri, 'select pg_current_wal_insert_lsn() as lsn')
  const ask = (moment: object) =>
    send(neap, 'POST', `/projects/${project_id}/branches`, { body: { branch: { parent_id: branch_id, ...moment } } })
  refused(await ask({ parent_timestamp: '2020-01-01T00:00:00Z' }), 422, 'NOT_ALLOWED', /goes from 20.* until now/)
  refused(await ask({ parent_timestamp: '2999-01-01T00:00:00Z' }), 422, 'NOT_ALLOWED', /in the future/)
  refused(await ask({ parent_timestamp: '2026-02-30T00:00:00Z' }), 400, 'INVALID_REQUEST', /is no time/)
  refused(await ask({ parent_timestamp: '2020-01-01T00:00:00+16:00' }), 422, 'NOT_ALLOWED', /goes from/)
  refused(await ask({ parent_timestamp: 'yesterday' }), 400, 'INVALID_REQUEST', /parent_timestamp is no time/)
  refused(await ask({ parent_lsn: 'F/F' }), 422, 'NOT_ALLOWED', /is not in the history/)
  refused(await ask({ parent_lsn: '0/1' }), 422, 'NOT_ALLOWED', /before the history/)
  refused(await ask({ parent_lsn: '12' }), 400, 'INVALID_REQUEST', /parent_lsn is no LSN/)
  const both = { parent_lsn: '0/1', parent_timestamp: '2020-01-01T00:00:00Z' }
  refused(await ask(both), 422, 'NOT_ALLOWED', /not both/)
  await suspend(neap, main)
  refused(await ask({ parent_lsn: 'F/F' }), 422, 'NOT_ALLOWED', /is not in the history/)
  const { status } = await ask({ parent_lsn: now?.lsn })
  assert.equal(status, 201)
})
