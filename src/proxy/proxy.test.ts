import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '../catalog/sql.ts'
import { bySni, byOptions, type Fixture, makeFixture, psql } from '../../test/proxy/fixture.ts'
import type { Proxy } from './proxy.ts'

let fixture: Fixture
let proxy: Proxy
let active: string

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  active = await fixture.endpoint(await fixture.compute.start())
})
after(() => fixture.close())

test('psql reaches an endpoint by startup options and by the host name in TLS', async () => {
  const byOption = await psql(byOptions(proxy.port, active), 'select current_user')
  assert.deepEqual(byOption, { code: 0, stdout: 'alice', stderr: '' })
  const byName = await psql(bySni(proxy.port, active, `sslrootcert=${fixture.caFile} sslmode=verify-full`), 'select 42')
  assert.deepEqual(byName, { code: 0, stdout: '42', stderr: '' })
  const pooled = await psql(bySni(proxy.port, `${active}-pooler`), 'select 43')
  assert.deepEqual(pooled, { code: 0, stdout: '43', stderr: '' })
})

test('a suspended endpoint wakes', async () => {
  const idle = await fixture.endpoint()
  const { made } = fixture.starts
  assert.deepEqual(await psql(byOptions(proxy.port, idle), 'select 1'), { code: 0, stdout: '1', stderr: '' })
  assert.equal(fixture.starts.made, made + 1)
  const row = await fixture.catalog.row<{ current_state: string }>(sql`select current_state from endpoint where id = ${idle}`)
  assert.equal(row?.current_state, 'active')
})
