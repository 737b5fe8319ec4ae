import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { superuser } from '../admin.ts'
import { connect, query, without } from '../clients.ts'
import { type Answer, refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { kill, outsidePid, until } from '../processes.ts'
import { branchOff, computeOf, endpointOf, firstPlace, type Place, settled, suspend } from '../project.ts'

/* The schema of a database as text, with Postgres 15, whose pg_dump Debian has. */

const absent = !existsSync('/usr/lib/postgresql/15/bin/postgres') && 'postgresql-15 not installed'
const skip = without('pg_dump') || absent

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  if (skip) return
  const { project, branch, endpoints, connection_uris, operations } = await neap.call('POST /projects', {
    body: { project: { pg_version: 15 } },
  })
  await neap.ended(operations)
  const [endpoint, uri] = [endpoints[0]?.id ?? '', connection_uris[0]?.connection_uri ?? '']
  place = { project_id: project.id, branch_id: branch.id, endpoint_id: endpoint, uri }
  await query(
    neap,
    uri,
    `create schema "we""ird; drop";
     create table "we""ird; drop"."Tisch" (id int primary key, "größe" text not null default 'a\\b');
     create view seen as select "größe" from "we""ird; drop"."Tisch";
     create function twice(int) returns int language sql as $$ select 2 * $1 $$`,
  )
})

after(() => neap?.stop())

const schemaOf = ({ project_id, branch_id }: Place, parameters: Record<string, string>): Promise<Answer> =>
  send(neap, 'GET', `/projects/${project_id}/branches/${branch_id}/schema?${String(new URLSearchParams(parameters))}`)

const database = () => new URL(place.uri).pathname.slice(1)

async function sqlOf(db_name = database()): Promise<string> {
  const { status, body } = await schemaOf(place, { db_name })
  assert.equal(status, 200, body.message)
  return String(body['sql'])
}

test('the schema is the output of pg_dump and recreates the schema', { skip }, async () => {
  const text = await sqlOf()
  assert.match(text, /^--\n-- PostgreSQL database dump\n--\n/)
  assert.match(text, /CREATE TABLE "we""ird; drop"\."Tisch" \(\n {4}id integer NOT NULL,\n {4}"größe" text/)
  assert.match(text, /OWNER TO/)
  assert.doesNotMatch(text, /^\\(un)?restrict/m)
  assert.match(text, /-- PostgreSQL database dump complete\n--\n+$/)
  assert.equal(await sqlOf(), text)

  const name = `copy of 'it=1 host=nowhere`
  await query(neap, place.uri, `create database "${name}"`)
  const client = await connect(neap, place.uri, { database: name })
  await client.query(text)
  await client.end()
  assert.equal(await sqlOf(name), text)
})

test('a schema request wakes an idle compute and a killed one', { skip }, async () => {
  const text = await sqlOf()
  await suspend(neap, place)
  assert.equal(await sqlOf(), text)
  await settled(neap, place, 'active')
  await kill((await computeOf(neap, place))?.pid)
  assert.equal(await sqlOf(), text)
  assert.equal((await endpointOf(neap, place)).current_state, 'active')
})

test('a branch is compared with its parent or with another branch', { skip: skip || without('diff') }, async () => {
  const { project_id, branch_id } = place
  const child = await branchOff(neap, place)
  const compare = async (more: Record<string, string> = {}) => {
    const parameters = String(new URLSearchParams({ db_name: database(), ...more }))
    const path = `/projects/${project_id}/branches/${child.branch_id}/compare_schema?${parameters}`
    return send(neap, 'GET', path)
  }
  assert.deepEqual((await compare()).body, { diff: '' })
  await query(neap, child.uri, 'alter table "we""ird; drop"."Tisch" add seats int')
  const { body } = await compare({ base_branch_id: branch_id })
  const lines = String(body['diff']).split('\n')
  assert.deepEqual(lines.slice(0, 2), [`--- main (${branch_id})`, `+++ ${child.branch_id} (${child.branch_id})`])
  assert.deepEqual(
    lines.filter((line) => /^\+[^+]/.test(line)),
    [`+    "größe" text DEFAULT 'a\\b'::text NOT NULL,`, '+    seats integer'],
  )
  assert.deepEqual((await compare({ base_branch_id: child.branch_id })).body, { diff: '' })
  refused(await compare({ base_branch_id: 'br-none' }), 404, 'NOT_FOUND', /branch br-none/)
  refused(await compare({ base_timestamp: 'x' }), 422, 'NOT_ALLOWED', /Leave base_timestamp out/)
})

test('the databases of two branches are compared all at once', { skip: without('diff') }, async () => {
  const first = await firstPlace(neap)
  const names = ['one', 'two', 'three', 'four', 'five', 'six']
  for (const name of names) await query(neap, first.uri, `create database ${name}`)
  const { project_id, branch_id } = await branchOff(neap, first)
  const answers = await Promise.all(
    names.map((name) =>
      send(neap, 'GET', `/projects/${project_id}/branches/${branch_id}/compare_schema?db_name=${name}`),
    ),
  )
  assert.deepEqual(
    answers.map(({ body }) => body),
    names.map(() => ({ diff: '' })),
  )
})

test('an impossible schema request is refused', { skip }, async () => {
  const db_name = database()
  for (const name of ['nowhere', 'neap', 'template1', `dbname=${db_name}`]) {
    refused(await schemaOf(place, { db_name: name }), 404, 'NOT_FOUND', new RegExp(`database ${name} not found`))
  }
  refused(await schemaOf(place, { db_name, lsn: '0/1' }), 422, 'NOT_ALLOWED', /Leave lsn out/)
  refused(await schemaOf(place, { db_name, timestamp: 'x' }), 422, 'NOT_ALLOWED', /Leave timestamp out/)
  refused(await schemaOf(place, { db_name, format: 'json' }), 422, 'NOT_ALLOWED', /format sql, not in json/)
  refused(await schemaOf(place, {}), 400, 'INVALID_REQUEST', /db_name/)
  refused(await schemaOf({ ...place, branch_id: 'br-none' }, { db_name }), 404, 'NOT_FOUND', /branch br-none not found/)
  const { branch, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: place.project_id },
    body: {},
  })
  await neap.ended(operations)
  const answer = await schemaOf({ ...place, branch_id: branch.id }, { db_name })
  refused(answer, 422, 'NOT_ALLOWED', /has no compute to read its database with\. Create an endpoint/)
})

test('a schema that waits for a lock or is too large is refused', { skip }, async () => {
  const db_name = database()
  const client = await connect(neap, place.uri)
  await client.query('begin; lock table "we""ird; drop"."Tisch"')
  refused(await schemaOf(place, { db_name }), 422, 'NOT_ALLOWED', /holds a lock/)
  await client.query('commit')
  await client.query(`do $$ begin execute format('comment on view seen is %L', repeat('x', 17 * 1024 * 1024)); end $$`)
  refused(await schemaOf(place, { db_name }), 422, 'NOT_ALLOWED', /over 16 MiB/)
  await client.query('comment on view seen is null')
  await client.end()
  await sqlOf()
})

test('a disconnect ends its pg_dump, and a project has at most two at once', { skip }, async (t) => {
  const db_name = database()
  await sqlOf()
  const admin = await superuser(neap, place)
  const holder = await connect(neap, place.uri)
  await holder.query('begin; lock table "we""ird; drop"."Tisch"')
  const postmaster = (await computeOf(neap, place))?.pid ?? assert.fail('no compute runs')
  const known: number[] = []
  const frozen: number[] = []
  const thaw = () => frozen.splice(0).forEach((pid) => process.kill(pid, 'SIGCONT'))
  t.after(async () => {
    thaw()
    await holder.end()
    await admin.end()
  })
  const dumps = () => {
    const api = neap.part('api')
    return readFileSync(`/proc/${api}/task/${api}/children`, 'utf8').trim().split(' ').filter(Boolean)
  }
  /** Blocks a dump for longer than its lock timeout, and returns the pid of its process. */
  const blockDump = async (): Promise<string> => {
    const inside = await until('another dump waits for the lock', async () => {
      const { rows } = await admin.query<{ pid: number }>(
        `select pid from pg_stat_activity
          where application_name = 'neap: branch' and wait_event_type = 'Lock' and pid <> all ($1)`,
        [known],
      )
      return rows[0]?.pid
    })
    known.push(inside)
    const server = outsidePid(postmaster, inside)
    process.kill(server, 'SIGSTOP')
    frozen.push(server)
    return dumps().at(-1) ?? ''
  }
  const hangUp = new AbortController()
  const { project_id, branch_id } = place
  const url = `${neap.ready.api_url}/projects/${project_id}/branches/${branch_id}/schema?db_name=${db_name}`
  const headers = { authorization: `Bearer ${neap.ready.api_key}` }

  const stays = schemaOf(place, { db_name })
  const first = await blockDump()
  const left = assert.rejects(fetch(url, { headers, signal: hangUp.signal }), { name: 'AbortError' })
  const second = await blockDump()
  const waits = schemaOf(place, { db_name })
  hangUp.abort()
  await left
  // The first dump began earlier: if dumps ended by a timeout, the first would end before the second.
  await until('the other has ended', () => !dumps().includes(second))
  await blockDump()
  assert.equal(dumps().length, 2)
  assert.equal(dumps()[0], first)
  thaw()
  await holder.query('commit')
  assert.deepEqual([(await stays).status, (await waits).status], [200, 200])
  await sqlOf()
})

test('the schema is read without a system pg_dump that is new enough', async () => {
  const first = await firstPlace(neap)
  const name = `it's a \\ "name`
  await query(neap, first.uri, `create database "it's a \\ ""name"`)
  const client = await connect(neap, first.uri, { database: name })
  await client.query(`create table "größe" (id int primary key, note text default E'\\\\ü')`)
  await client.end()
  const { status, body } = await schemaOf(first, { db_name: name })
  assert.equal(status, 200, body.message)
  assert.match(String(body['sql']), /^--\n-- PostgreSQL database dump\n--\n/)
  assert.match(String(body['sql']), /CREATE TABLE public\."größe" \(/)
  assert.match(String(body['sql']), /-- Dumped by pg_dump version \d+/)
})
