import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { type Fixture, makeFixture, observer, PASSWORD } from '../proxy/fixture.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'

/*
 * A tenant chooses the SCRAM iterations of its roles: deriving keys for them must not delay the logins of other
 * tenants.
 */

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

/** Creates a role whose verifier has this cost but matches no known password. */
async function makeRole(name: string, iterations: number, salt = randomBytes(16)): Promise<void> {
  const admin = await observer(fixture)
  const [stored, server] = [randomBytes(32), randomBytes(32)].map((key) => key.toString('base64'))
  const verifier = `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${stored}:${server}`
  await admin.query(`create role ${name} login password '${verifier}'`)
  await admin.end()
}

/** Logs in with a cleartext password. Returns 'in' or the error. */
async function logIn(endpoint: string, user: string, password: string): Promise<string> {
  const client = new pg.Client({
    host: '127.0.0.1',
    port: proxy.port,
    user,
    password: `endpoint=${endpoint};${password}`,
    database: 'postgres',
    ssl: { rejectUnauthorized: false },
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return 'in'
  } catch (error) {
    const { code, hint } = error as pg.DatabaseError
    return `${code} ${hint ?? ''}`
  } finally {
    await client.end()
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

test('a verifier above the iteration limit is refused without a derivation, as an unknown role is', async (t) => {
  await makeRole('bomb', 3_000_000)
  const baseline = await timed(async () => assert.equal(await logIn(victim, 'alice', PASSWORD), 'in'))
  let answers: string[] = []
  const ms = await timed(async () => {
    const bombs = Array.from({ length: 12 }, () => logIn(hostile, 'bomb', 'any'))
    assert.equal(await logIn(victim, 'alice', PASSWORD), 'in')
    answers = await Promise.all(bombs)
  })
  t.diagnostic(`one login ${baseline.toFixed(0)} ms, twelve bombs and a login ${ms.toFixed(0)} ms`)
  assert.ok(ms < 40 * baseline, `${ms} ms against ${baseline} ms for one login`)
  const [refused] = new Set(answers)
  assert.match(refused ?? '', /^28P01 .*at most 100000 SCRAM iterations/)
  assert.equal(new Set(answers).size, 1)
  assert.equal(await logIn(hostile, 'no_such_role', 'any'), refused)
})

test('key derivations alternate between endpoints: a flood at one does not delay logins at another', async (t) => {
  await makeRole('costly', 100_000)
  let ended = 0
  const flood = Array.from({ length: 40 }, () => logIn(hostile, 'costly', 'any').then(() => ended++))
  // One login of the flood has been checked, so all others are queued or about to be.
  await Promise.race(flood)
  const already = ended
  assert.equal(await logIn(victim, 'alice', PASSWORD), 'in')
  const meanwhile = ended - already
  t.diagnostic(`${meanwhile} of the flood were answered while another tenant logged in`)
  await Promise.all(flood)
  assert.ok(meanwhile <= 20, `${meanwhile} of the flood were checked first`)
})

test('a verifier with no iterations or an oversized salt is refused as a wrong password', async () => {
  await makeRole('no_iterations', 0)
  await makeRole('long_salt', 4096, randomBytes(150))
  for (const role of ['no_iterations', 'long_salt']) assert.match(await logIn(hostile, role, 'any'), /^28P01 /)
})
