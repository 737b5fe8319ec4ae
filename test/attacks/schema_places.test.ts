import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { connect, query } from '../clients.ts'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'

/*
 * A tenant makes each schema request take as long as its lock timeout. Formerly four concurrent ones used up all slots
 * of an API process.
 */

const skip = !existsSync('/usr/lib/postgresql/15/bin/pg_dump') && 'Postgres 15 not installed'

let neap: Neap

before(async () => {
  if (!skip) neap = await startNeap({ args: ['--no-project'] })
})
after(() => neap?.stop())

async function newProject() {
  const made = await neap.call('POST /projects', { body: { project: { pg_version: 15 } } })
  await neap.ended(made.operations)
  const uri = made.connection_uris?.[0]?.connection_uri ?? ''
  await query(neap, uri, 'create table held (id int)')
  return { uri, schema: `/projects/${made.project.id}/branches/${made.branch.id}/schema?db_name=neondb` }
}

test('schema requests of one project that wait for a lock leave slots for other projects', { skip }, async (t) => {
  const [hostile, other] = [await newProject(), await newProject()]
  const key = neap.ready.api_key
  const holder = await connect(neap, hostile.uri)
  t.after(() => holder.end())
  await holder.query('begin; lock table held')
  const asked = Array.from({ length: 6 }, () => send(neap, 'GET', hostile.schema, { key }))
  await until('a dump waits for the lock', async () => {
    const rows = await query(
      neap,
      hostile.uri,
      `select from pg_stat_activity where application_name = 'neap: branch' and wait_event_type = 'Lock'`,
    )
    return rows.length >= 2
  })
  assert.equal((await send(neap, 'GET', other.schema, { key })).status, 200)
  await holder.query('rollback')
  // The others had to wait for the first two.
  const statuses = new Set((await Promise.all(asked)).map(({ status }) => status))
  assert.deepEqual(statuses, new Set([200]))
})
