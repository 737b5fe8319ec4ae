import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { connect, query, without } from '../clients.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { branchOff, computeOf, endpointOf, firstPlace, type Place, settled, suspend } from '../project.ts'
import { audit, openBank, startTransfers } from './bank.ts'

/* A branch gets another branch's data and keeps its identity and address for clients. */

let neap: Neap
let main: Place

before(async () => {
  neap = await startNeap()
  main = await firstPlace(neap)
  await openBank(neap, main.uri)
})

after(() => neap?.stop())

type Restore = { source_branch_id: string; preserve_under_name?: string }

const restoreOf = ({ project_id, branch_id }: Place, body: Restore) =>
  neap.call('POST /projects/:project_id/branches/:branch_id/restore', { params: { project_id, branch_id }, body })

const branchesOf = async ({ project_id }: Place) =>
  (await neap.call('GET /projects/:project_id/branches', { params: { project_id } })).branches

async function branchNamed(place: Place, name: string) {
  const found = (await branchesOf(place)).find((branch) => branch.name === name)
  assert.ok(found, `there is no branch ${name}`)
  return found
}

const branchOf = async ({ project_id, branch_id }: Place) =>
  (await neap.call('GET /projects/:project_id/branches/:branch_id', { params: { project_id, branch_id } })).branch

/** Creates an endpoint for a branch without one, and returns its place. */
async function reach(branch_id: string): Promise<Place> {
  const { endpoint, operations } = await neap.call('POST /projects/:project_id/endpoints', {
    params: { project_id: main.project_id },
    body: { endpoint: { type: 'read_write', branch_id } },
  })
  await neap.ended(operations)
  const uri = main.uri.replace(main.endpoint_id, endpoint.id)
  return { project_id: main.project_id, branch_id, endpoint_id: endpoint.id, uri }
}

/** Changes a branch so that its hash is unique. */
const differ = async (place: Place) =>
  query(neap, place.uri, `update frozen set payload = gen_random_uuid()::text where id % 1000 = 0`)

async function uriOf({ project_id, branch_id }: Place): Promise<string> {
  const key = 'GET /projects/:project_id/connection_uri'
  const role_name = decodeURIComponent(new URL(main.uri).username)
  const names = { branch_id, role_name, database_name: new URL(main.uri).pathname.slice(1) }
  return (await neap.call(key, { params: { project_id }, query: names })).uri
}

test("a branch that is reset to its parent has the parent's data and keeps its address", async () => {
  const child = await branchOff(neap, main)
  await differ(child)
  await query(neap, child.uri, 'create role of_child')
  await query(neap, child.uri, 'create database of_child')
  await query(neap, main.uri, `insert into transfer (debit, credit, amount) values (1, 2, 0)`)
  const [uri, endpoint, known] = [await uriOf(child), await endpointOf(neap, child), await branchesOf(main)]
  const lost = Promise.withResolvers<Error & { code?: string }>()
  const session = await connect(neap, child.uri, { lost: lost.resolve })

  const { project_id, branch_id } = child
  const params = { project_id, branch_id }
  const answer = await neap.call('POST /projects/:project_id/branches/:branch_id/reset_to_parent', { params })
  assert.deepEqual(
    answer.operations.map(({ action }) => action),
    ['create_branch', 'suspend_compute', 'create_branch', 'start_compute', 'delete_timeline'],
  )
  assert.equal(answer.branch.parent_id, main.branch_id)
  await neap.ended(answer.operations)

  assert.equal((await lost.promise).code, '57P01')
  await session.end()
  assert.deepEqual(await audit(neap, child.uri), await audit(neap, main.uri))
  const names = 'select rolname as name from pg_roles union all select datname from pg_database order by 1'
  assert.deepEqual(await query(neap, child.uri, names), await query(neap, main.uri, names))
  assert.equal(await uriOf(child), uri)
  const { id, host, current_state } = await endpointOf(neap, child)
  assert.deepEqual([id, host, current_state], [endpoint.id, endpoint.host, 'active'])
  const ids = (branches: { id: string }[]) => branches.map((branch) => branch.id).sort()
  assert.deepEqual(ids(await branchesOf(main)), ids(known))
})

test('an idle branch that is restored stays idle, and wakes with the new data', async () => {
  const [branch, other] = [await branchOff(neap, main), await branchOff(neap, main)]
  await differ(other)
  await suspend(neap, branch)
  const { operations } = await restoreOf(branch, { source_branch_id: other.branch_id })
  assert.deepEqual(
    operations.map(({ action }) => action),
    ['create_branch', 'create_branch', 'delete_timeline'],
  )
  await neap.ended(operations)
  assert.equal((await endpointOf(neap, branch)).current_state, 'idle')
  assert.equal((await branchOf(branch)).parent_id, other.branch_id)
  assert.deepEqual(await audit(neap, branch.uri), await audit(neap, other.uri))
  await differ(branch)
  assert.notEqual((await audit(neap, branch.uri)).frozen, (await audit(neap, other.uri)).frozen)
})

/** Creates a role with a database of the same name, and returns the role's connection URI. */
async function addRole({ project_id, branch_id, uri }: Place, name: string): Promise<string> {
  const params = { project_id, branch_id }
  const role = { name }
  const made = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', { params, body: { role } })
  const database = { name, owner_name: name }
  const key = 'POST /projects/:project_id/branches/:branch_id/databases'
  const { operations } = await neap.call(key, { params, body: { database } })
  await neap.ended([...made.operations, ...operations])
  return asRole(uri, name, made.role.password ?? '')
}

function asRole(uri: string, name: string, password: string): string {
  return Object.assign(new URL(uri), { username: name, password, pathname: `/${name}` }).href
}

test('a restore replaces roles, databases and passwords too', async () => {
  const [branch, other] = [await branchOff(neap, main), await branchOff(neap, main)]
  const mine = await addRole(branch, 'mine')
  const theirs = await addRole(other, 'theirs')
  await suspend(neap, branch)
  // This role is not applied to Postgres before the next start.
  const asleep = await addRole(branch, 'asleep')
  const { operations } = await restoreOf(branch, { source_branch_id: other.branch_id, preserve_under_name: 'mine' })
  await neap.ended(operations)
  const kept = { ...branch, branch_id: (await branchNamed(branch, 'mine')).id }
  // Both endpoints are idle: the lists come from the catalog.
  const namesOf = async ({ project_id, branch_id }: Place) => {
    const params = { project_id, branch_id }
    const { roles } = await neap.call('GET /projects/:project_id/branches/:branch_id/roles', { params })
    const { databases } = await neap.call('GET /projects/:project_id/branches/:branch_id/databases', { params })
    return [roles, databases].map((list) =>
      list.map(({ name }) => name).filter((name) => /^(mine|theirs|asleep)$/.test(name)),
    )
  }
  assert.deepEqual(await namesOf(branch), [['theirs'], ['theirs']])
  assert.deepEqual(await namesOf(kept), [
    ['mine', 'asleep'],
    ['mine', 'asleep'],
  ])
  const passwordOf = async ({ project_id, branch_id }: Place, role_name: string) => {
    const key = 'GET /projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password'
    return (await neap.call(key, { params: { project_id, branch_id, role_name } })).password
  }
  const [uri, keptUri] = [asRole(branch.uri, 'theirs', new URL(theirs).password), (await reach(kept.branch_id)).uri]
  assert.equal(await passwordOf(branch, 'theirs'), new URL(theirs).password)
  assert.equal(await passwordOf(kept, 'mine'), new URL(mine).password)
  assert.deepEqual(await query(neap, uri, 'select current_user'), [{ current_user: 'theirs' }])
  for (const [name, given] of Object.entries({ mine, asleep })) {
    const as = asRole(keptUri, name, new URL(given).password)
    assert.deepEqual(await query(neap, as, 'select current_user'), [{ current_user: name }])
  }
})

test('a branch restored from itself keeps running; its copy takes its children and its parent', async () => {
  const branch = await branchOff(neap, main)
  const child = await branchOff(neap, branch)
  await differ(branch)
  const [held, compute] = [await audit(neap, branch.uri), await computeOf(neap, branch)]
  const answer = await restoreOf(branch, { source_branch_id: branch.branch_id, preserve_under_name: 'itself' })
  const kept = await branchNamed(branch, 'itself')
  assert.equal(answer.branch.parent_id, kept.id)
  await neap.ended(answer.operations)
  assert.equal((await computeOf(neap, branch))?.pid, compute?.pid)
  assert.equal((await branchOf(branch)).parent_id, kept.id)
  assert.equal((await branchOf(child)).parent_id, kept.id)
  assert.equal((await branchNamed(branch, 'itself')).parent_id, main.branch_id)
  assert.deepEqual(await audit(neap, branch.uri), held)
  assert.deepEqual(await audit(neap, (await reach(kept.id)).uri), held)
})

/**
 * Inserts consecutive numbers until told to stop, reconnecting after lost connections; returns the acknowledged ones.
 */
function startWriter(uri: string) {
  let over = false
  let last: string | undefined
  const acknowledged: number[] = []
  const writing = (async () => {
    let client: pg.Client | undefined
    for (let number = 0; !over; number++) {
      try {
        client ??= await connect(neap, uri)
        await client.query('insert into written values ($1)', [number])
        acknowledged.push(number)
      } catch (error) {
        last = (error as { code?: string }).code
        await client?.end().catch(() => {})
        client = undefined
      }
    }
    await client?.end()
  })()
  return {
    acknowledged,
    lastError: () => last,
    async end() {
      over = true
      await writing
      return acknowledged
    },
  }
}

const writtenAt = async ({ uri }: Place) =>
  (await query<{ number: number }>(neap, uri, 'select number from written order by 1')).map(({ number }) => number)

test('a restore under load, with children, loses no acknowledged commit', { skip: without('pgbench') }, async (t) => {
  await query(neap, main.uri, 'create table written (number int)')
  const branch = await branchOff(neap, main)
  const child = await branchOff(neap, branch)
  await query(neap, branch.uri, 'create table of_branch ()')
  const load = await startTransfers(neap, branch.uri)
  t.after(() => load.stop())
  const writer = startWriter(branch.uri)
  await until('what is written', () => writer.acknowledged.length > 20)
  const made = await load.made()

  const { operations } = await restoreOf(branch, { source_branch_id: main.branch_id, preserve_under_name: 'before' })
  await neap.ended(operations)
  const restored = writer.acknowledged.length
  await until('more that is written', () => writer.acknowledged.length > restored + 20)
  const acknowledged = await writer.end()
  assert.equal(writer.lastError(), '57P01')
  assert.notEqual(await load.stop(), undefined, 'pgbench was cut off')

  const kept = await reach((await branchNamed(branch, 'before')).id)
  const [before_, after_] = [await writtenAt(kept), await writtenAt(branch)]
  const all = new Set([...before_, ...after_])
  assert.deepEqual(
    acknowledged.filter((number) => !all.has(number)),
    [],
  )
  assert.ok(Math.max(...before_) < Math.min(...after_), 'nothing is written to the old data once the new is there')
  const held = await audit(neap, kept.uri)
  assert.ok(held.consistent && held.transfers >= made)
  assert.deepEqual(await audit(neap, branch.uri), await audit(neap, main.uri))
  const tables = `select relname from pg_class where relname = 'of_branch'`
  assert.deepEqual(await query(neap, branch.uri, tables), [])
  assert.equal((await query(neap, kept.uri, tables)).length, 1)
  assert.equal((await branchOf(child)).parent_id, kept.branch_id)
  assert.equal((await branchOf(branch)).parent_id, main.branch_id)
})

test('a restore completes after kill -9 of the worker in each of its operations', async () => {
  const [branch, other] = [await branchOff(neap, main), await branchOff(neap, main)]
  for (const kind of [0, 1, 2, 3, 4]) {
    await differ(other)
    await query(neap, branch.uri, 'select 1')
    await settled(neap, branch, 'active')
    const { operations } = await restoreOf(branch, { source_branch_id: other.branch_id })
    const { id: operation_id, project_id } = operations[kind] ?? { id: '', project_id: '' }
    await until(`operation ${kind} has begun`, async () => {
      const params = { project_id, operation_id }
      const { operation } = await neap.call('GET /projects/:project_id/operations/:operation_id', { params })
      return operation.status !== 'scheduling'
    })
    await kill(neap.part('worker'))
    await neap.ended(operations)
    assert.deepEqual(await audit(neap, branch.uri), await audit(neap, other.uri))
  }
})

test('requests right after a restore apply to the restored branch', async () => {
  const branch = await branchOff(neap, main)
  const { project_id, branch_id } = branch
  const restored = await restoreOf(branch, { source_branch_id: main.branch_id, preserve_under_name: 'before role' })
  const made = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', {
    params: { project_id, branch_id },
    body: { role: { name: 'late' } },
  })
  const child = await branchOff(neap, branch)
  await neap.ended([...restored.operations, ...made.operations])
  assert.equal((await branchOf(child)).parent_id, branch_id)
  for (const place of [branch, child]) {
    const uri = Object.assign(new URL(place.uri), { username: 'late', password: made.role.password }).href
    assert.deepEqual(await query(neap, uri, 'select current_user'), [{ current_user: 'late' }])
  }
})

test('a database renamed right after a restore has its new name at once, and in Postgres', async () => {
  const branch = await branchOff(neap, main)
  await suspend(neap, branch)
  const params = { project_id: branch.project_id, branch_id: branch.branch_id }
  const name = new URL(main.uri).pathname.slice(1)
  const restored = await restoreOf(branch, { source_branch_id: main.branch_id })
  const renamed = await neap.call('PATCH /projects/:project_id/branches/:branch_id/databases/:database_name', {
    params: { ...params, database_name: name },
    body: { database: { name: 'renamed' } },
  })
  await neap.ended([...restored.operations, ...renamed.operations])
  const { databases } = await neap.call('GET /projects/:project_id/branches/:branch_id/databases', { params })
  assert.deepEqual(
    databases.map((each) => each.name),
    ['renamed'],
  )
  const uri = Object.assign(new URL(branch.uri), { pathname: '/renamed' }).href
  assert.deepEqual(await query(neap, uri, 'select current_database() as name'), [{ name: 'renamed' }])
})

test('an impossible restore is refused and changes no branch', async () => {
  const { project_id, branch_id } = await branchOff(neap, main)
  const branches = `/projects/${project_id}/branches`
  const known = await branchesOf(main)
  const ask = (id: string, body: object) => send(neap, 'POST', `${branches}/${id}/restore`, { body })
  const source_branch_id = branch_id
  refused(
    await ask(main.branch_id, { source_branch_id }),
    422,
    'NOT_ALLOWED',
    /has children, preserve_under_name is required/,
  )
  refused(await ask(branch_id, { source_branch_id }), 422, 'NOT_ALLOWED', /itself: preserve_under_name is required/)
  for (const moment of [{ source_lsn: '0/1' }, { source_timestamp: '2026-01-01T00:00:00Z' }]) {
    const body = { source_branch_id: main.branch_id, ...moment }
    refused(await ask(branch_id, body), 422, 'NOT_ALLOWED', /before the history of the branch, which goes from/)
  }
  refused(await ask(branch_id, { source_branch_id: 'br-none' }), 404, 'NOT_FOUND', /branch br-none not found/)
  const taken = { source_branch_id: main.branch_id, preserve_under_name: branch_id }
  refused(await ask(branch_id, taken), 409, 'BRANCH_ALREADY_EXISTS', /branch_name:"br-/)
  const reset = await send(neap, 'POST', `${branches}/${main.branch_id}/reset_to_parent`)
  refused(reset, 422, 'NOT_ALLOWED', /no parent/)
  // What their sessions have passed is counted later.
  const lasting = (all: typeof known) => all.map((branch) => ({ ...branch, data_transfer_bytes: 0 }))
  assert.deepEqual(lasting(await branchesOf(main)), lasting(known))
})
