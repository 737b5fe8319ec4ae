import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '../../src/catalog/sql.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { connect, type Fixture, makeFixture } from '../proxy/fixture.ts'

/* Strangers log in at an endpoint with a very long allowed_ips list, which the API formerly accepted. */

let fixture: Fixture
let proxy: Proxy
let hostile: string
let victim: string

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  const pid = await fixture.compute.start()
  ;[hostile, victim] = [await fixture.endpoint(pid), await fixture.endpoint(pid)]
})
after(() => fixture.close())

test('45,000 allowed addresses of one endpoint do not slow down logins at another', async (t) => {
  const ips = Array.from({ length: 45_000 }, (_, n) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`)
  await fixture.catalog.rows(
    sql`update project set settings = ${JSON.stringify({ allowed_ips: { ips } })} where id = ${hostile}`,
  )
  const wrong = async (): Promise<void> => {
    await assert.rejects(connect(proxy.port, hostile, { password: 'wrong' }), { code: '28P01' })
  }
  const login = async (): Promise<number> => {
    const begun = performance.now()
    await (await connect(proxy.port, victim)).end()
    return performance.now() - begun
  }
  await wrong()
  await login()
  const alone = Math.min(await login(), await login(), await login())
  let over = false
  let attempts = 0
  const strangers = Array.from({ length: 8 }, async () => {
    while (!over) {
      // Each attempt uses a new role name, so that the limit on guesses does not slow them down.
      await assert.rejects(connect(proxy.port, hostile, { user: `nobody_${attempts++}` }), { code: '28P01' })
    }
  })
  const during = Math.max(await login(), await login(), await login())
  over = true
  await Promise.all(strangers)
  t.diagnostic(`a login alone ${alone.toFixed(0)} ms, at most ${during.toFixed(0)} ms beside ${attempts} strangers'`)
  assert.ok(during < 40 * alone, `${during} ms instead of ${alone} ms`)
})
