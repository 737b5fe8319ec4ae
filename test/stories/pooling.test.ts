import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { connect, query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, firstPlace, type Place, settled, suspend } from '../project.ts'

/* Clients of a pooled host do not notice a suspend, restart or resize of its endpoint's compute. */

let neap: Neap
let home: Place
let pooledUri: string

before(async () => {
  neap = await startNeap({ env: { NEAP_POOL_SIZE: '4', NEAP_MIN_SUSPEND_TIMEOUT: '1' } })
  home = await firstPlace(neap)
  pooledUri = home.uri.replace(home.endpoint_id, `${home.endpoint_id}-pooler`)
  await query(neap, home.uri, 'create table noted (client int, number int, primary key (client, number))')
})

after(() => neap?.stop())

const params = () => ({ project_id: home.project_id, endpoint_id: home.endpoint_id })

async function change(endpoint: {
  pooler_enabled?: boolean
  autoscaling_limit_min_cu?: number
  autoscaling_limit_max_cu?: number
  branch_id?: string
}) {
  const body = { endpoint }
  const { operations } = await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
    params: params(),
    body,
  })
  await neap.ended(operations)
}

async function restart(): Promise<void> {
  const { operations } = await neap.call('POST /projects/:project_id/endpoints/:endpoint_id/restart', {
    params: params(),
  })
  await neap.ended(operations)
}

interface Writer {
  /** Numbers whose insert was acknowledged. */
  readonly noted: number[]
  readonly errors: string[]
  stop(): Promise<void>
}

/** Inserts consecutive numbers, each in its own transaction. */
function write(client: pg.Client, id: number): Writer {
  const noted: number[] = []
  const errors: string[] = []
  let stopping = false
  const over = (async () => {
    for (let number = 1; !stopping; number++) {
      try {
        await client.query({ name: 'note', text: 'insert into noted values ($1, $2)', values: [id, number] })
        noted.push(number)
      } catch (error) {
        const { code, message } = error as pg.DatabaseError
        errors.push(`${code} ${message}`)
        if (errors.length > 10) return
      }
    }
  })()
  return {
    noted,
    errors,
    async stop() {
      stopping = true
      await over
    },
  }
}

test('a pooled client survives a suspend, a restart and a resize, and writes each row once', async () => {
  const ended: string[] = []
  const lost = (error: Error) => ended.push(error.message)
  const open = () => connect(neap, pooledUri, { lost })
  const idle = await Promise.all(Array.from({ length: 5 }, open))
  const [transaction, ...writing] = await Promise.all(Array.from({ length: 7 }, open))
  assert.ok(transaction)
  for (const [index, client] of idle.entries())
    await client.query({ name: 'mine', text: `select ${index}::int as mine` })
  const writers = writing.map((client, index) => write(client, index))

  for (const happens of [
    () => suspend(neap, home),
    restart,
    () => change({ autoscaling_limit_min_cu: 0.5, autoscaling_limit_max_cu: 0.5 }),
    () => suspend(neap, home),
  ]) {
    await transaction.query('begin')
    await transaction.query('select count(*) from noted')
    await happens()
    const answered = await Promise.all(
      idle.map((client, index) =>
        client.query<{ mine: number }>({ name: 'mine', text: `select ${index}::int as mine` }),
      ),
    )
    assert.deepEqual(
      answered.map(({ rows }) => rows[0]?.mine),
      idle.map((_client, index) => index),
    )
    // A resize ends no session.
    const code = await transaction.query('select 1').then(
      () => undefined,
      (error: unknown) => (error as pg.DatabaseError).code,
    )
    assert.ok(code === undefined || code === '40001', code)
    await transaction.query('rollback')
  }
  await Promise.all(writers.map((writer) => writer.stop()))
  assert.deepEqual(ended, [])
  assert.deepEqual(
    writers.flatMap(({ errors }) => errors),
    [],
  )
  const rows = await query<{ client: number; count: number; last: number }>(
    neap,
    home.uri,
    'select client, count(*)::int as count, max(number) as last from noted group by client order by client',
  )
  assert.deepEqual(
    rows,
    writers.map(({ noted }, client) => ({ client, count: noted.length, last: noted.at(-1) })),
  )
  await Promise.all([transaction, ...idle, ...writing].map((client) => client.end()))
})

test('a pooled client of a moved endpoint continues on the other branch', async () => {
  const other = await branchOff(neap, home)
  await neap.call('DELETE /projects/:project_id/endpoints/:endpoint_id', { params: other })
  await query(neap, home.uri, 'create table here as select 1')
  const client = await connect(neap, pooledUri)
  const there = async () =>
    (await client.query<{ here: string | null }>("select to_regclass('here') as here")).rows[0]?.here
  assert.equal(await there(), 'here')
  await change({ branch_id: other.branch_id })
  assert.equal(await there(), null)
  await change({ branch_id: home.branch_id })
  assert.equal(await there(), 'here')
  await client.end()
})

test('an endpoint with pooler_enabled pools its plain host', async () => {
  await change({ pooler_enabled: true })
  const client = await connect(neap, home.uri)
  await suspend(neap, home)
  assert.equal((await client.query('select 1')).rowCount, 1)
  await assert.rejects(client.query('listen news'), { code: '0A000' })
  await client.end()
  await change({ pooler_enabled: false })
})

test('a pooled client wakes an endpoint and does not keep it active', async () => {
  const client = await connect(neap, pooledUri)
  await client.query('select 1')
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
    params: params(),
    body: { endpoint: { suspend_timeout_seconds: 1 } },
  })
  await settled(neap, home, 'idle')
  assert.equal((await client.query('select 1')).rowCount, 1)
  await client.end()
})

test('a pooled client of a removed role gets no session of a role that is made anew under its name', async () => {
  const at = { project_id: home.project_id, branch_id: home.branch_id }
  const make = async (): Promise<string> => {
    const { role, operations } = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', {
      params: at,
      body: { role: { name: 'bob' } },
    })
    await neap.ended(operations)
    return Object.assign(new URL(pooledUri), { username: 'bob', password: role.password }).href
  }
  const former = await connect(neap, await make())
  assert.deepEqual((await former.query('select current_user')).rows, [{ current_user: 'bob' }])
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id/roles/:role_name', {
    params: { ...at, role_name: 'bob' },
  })
  await neap.ended(operations)
  const next = await connect(neap, await make())
  assert.deepEqual((await next.query('select current_user')).rows, [{ current_user: 'bob' }])
  await assert.rejects(former.query('select current_user'), { code: '28P01' })
  assert.deepEqual((await next.query('select current_user')).rows, [{ current_user: 'bob' }])
  await next.end()
  former.end().catch(() => undefined)
})
