import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { connect } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'

/* Before Postgres 16, a role with CREATEROLE may grant itself every role that is not a superuser. */

const skip = !existsSync('/usr/lib/postgresql/15/bin/initdb') && 'Postgres 15 not installed'

let neap: Neap

before(async () => {
  if (!skip) neap = await startNeap({ args: ['--no-project'] })
})
after(() => neap?.stop())

test('a role of the API cannot run programs as the user of its compute', { skip }, async (t) => {
  const made = await neap.call('POST /projects', { body: { project: { pg_version: 15 } } })
  await neap.ended(made.operations)
  const client = await connect(neap, made.connection_uris?.[0]?.connection_uri ?? '')
  t.after(() => client.end())
  for (const role of ['pg_execute_server_program', 'pg_write_server_files', 'pg_read_server_files'])
    await assert.rejects(client.query(`grant ${role} to current_user`), { code: '42501' }, role)
  await assert.rejects(client.query(`copy (select 1) to program 'cat > /tmp/ran'`), { code: '42501' })
})
