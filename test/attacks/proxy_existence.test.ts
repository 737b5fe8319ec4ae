import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '../../src/catalog/sql.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { newEndpointId } from '../../src/ids.ts'
import { connect, type Fixture, makeFixture, PASSWORD } from '../proxy/fixture.ts'

/* The information about endpoints, and the starts, that a client without a password can obtain. */

let fixture: Fixture
let proxy: Proxy

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
})
after(() => fixture.close())

test('a crashed compute wakes ten times for unknown roles, and always for a valid password', async (t) => {
  const endpoint = await fixture.endpoint()
  // As after a crash: idle, and without a record of the changes by SQL.
  const crash = async (): Promise<void> => {
    await fixture.idle(endpoint)
    await fixture.catalog.rows(sql`update branch set noted = false where id = ${endpoint}`)
  }
  const already = fixture.starts.asked
  for (let turn = 0; turn < 14; turn++) {
    await crash()
    await assert.rejects(connect(proxy.port, endpoint, { user: `stranger_${turn}` }), { code: '28P01' })
  }
  const wakes = fixture.starts.asked - already
  t.diagnostic(`fourteen logins with unknown roles woke a crashed compute ${wakes} times`)
  assert.ok(wakes <= 10)
  await crash()
  const client = await connect(proxy.port, endpoint)
  await client.end()
  await crash()
  await assert.rejects(connect(proxy.port, endpoint, { password: 'wrong' }), { code: '28P01' })
  assert.equal(fixture.starts.asked - already, wakes + 1)
})

const median = (samples: number[]): number => samples.toSorted((a, b) => a - b)[samples.length >> 1] ?? NaN

test('a login at a missing endpoint takes as long as at an active one', async (t) => {
  const active = await fixture.endpoint(1)
  // Some names always look idle: these are excluded.
  const missing = Array.from({ length: 12 }, newEndpointId)
  let role = 0
  const took = async (endpoint: string): Promise<number> => {
    const begun = performance.now()
    // A new role each time: repeated wrong passwords for one role are answered late.
    await assert.rejects(connect(proxy.port, endpoint, { user: `no_such_role_${role++}`, password: PASSWORD }), {
      code: '28P01',
    })
    return performance.now() - begun
  }
  const ofActive: number[] = []
  const ofMissing = new Map(missing.map((id) => [id, [] as number[]]))
  for (let turn = 0; turn < 22; turn++) {
    for (const [id, samples] of ofMissing) {
      samples.push(await took(id))
      if (turn < 2) samples.pop()
      if (turn % 2 === 0 && id === missing[0]) ofActive.push(await took(active))
      else if (id === missing[5] || id === missing[9]) ofActive.push(await took(active))
    }
  }
  const medians = [...ofMissing.values()].map(median).toSorted((a, b) => a - b)
  const running = median(ofActive)
  t.diagnostic(`active ${running.toFixed(1)} ms, missing ${medians.map((ms) => ms.toFixed(1)).join(' ')} ms`)
  const alike = medians.filter((ms) => ms > running * 0.6 && ms < running * 1.6)
  assert.ok(
    alike.length >= missing.length / 3,
    `${alike.length} of ${missing.length} missing names look like a running one`,
  )
})
