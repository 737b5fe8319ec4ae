import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { type Ring, readRing } from '../../src/secrets/ring.ts'
import { keysFor } from '../../src/secrets/part_keys.ts'
import { storeSecrets } from '../../src/secrets/stores.ts'
import type { SecretsReport } from '../../src/rotation/report.ts'
import type { RotationStep } from '../../src/rotation/rotate.ts'
import { catalogQuery } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { envOf, leaveNothing, type Neap, neapRun, newDataDir, run, startNeap } from '../neap.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import { branchOff, computeOf, firstPlace, newProject, type Place, settled, suspend } from '../project.ts'
import { randomFrom } from '../random.ts'

/* Keys are rotated under load; a killed rotation resumes; a lost key loses no data. */

let neap: Neap
let place: Place
/** Only the first start prints it. */
let key: string

before(async () => {
  neap = await startNeap()
  key = neap.ready.api_key ?? ''
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table kept as select generate_series(1, 100) n')
})
after(() => neap?.stop())

const environment = () => envOf(neap.ready.data_dir)
const ringNow = async () => (await readRing(join(neap.ready.data_dir, 'secret.key'))) as Ring

async function rotate(): Promise<void> {
  const { code, stderr } = await neapRun(['secrets', 'rotate'], environment())
  assert.equal(code, 0, stderr)
}

async function report(): Promise<SecretsReport> {
  const { stdout, stderr, code } = await neapRun(['secrets', '--json'], environment())
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as SecretsReport
}

const roleOf = ({ uri }: Place): string => decodeURIComponent(new URL(uri).username)

const revealed = async (at: Place) => {
  const params = { project_id: at.project_id, branch_id: at.branch_id, role_name: roleOf(at) }
  return (await neap.call('GET /projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password', { params }))
    .password
}

async function resetPassword(): Promise<void> {
  const { role, operations } = await neap.call(
    'POST /projects/:project_id/branches/:branch_id/roles/:role_name/reset_password',
    { params: { project_id: place.project_id, branch_id: place.branch_id, role_name: roleOf(place) } },
  )
  await neap.ended(operations)
  const uri = new URL(place.uri)
  uri.password = role.password ?? ''
  place = { ...place, uri: uri.href }
}

/**
 * Asserts all that depends on a key: logins to an idle and an active endpoint, API keys, revealed passwords, new
 * branches.
 */
async function expectWorking(): Promise<void> {
  await suspend(neap, place)
  assert.deepEqual(await query(neap, place.uri, 'select count(*)::int from kept'), [{ count: 100 }])
  // A client is admitted a moment before its compute is recorded as active; only an active compute is queried for
  // passwords.
  await settled(neap, place, 'active')
  assert.equal(await revealed(place), new URL(place.uri).password)
  assert.equal((await send(neap, 'GET', '/projects', { key })).status, 200)
  const child = await branchOff(neap, place)
  assert.deepEqual(await query(neap, child.uri, 'select count(*)::int from kept'), [{ count: 100 }])
  const params = { project_id: child.project_id, branch_id: child.branch_id }
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  await neap.ended(operations)
}

test('a rotation under load disturbs no client', async () => {
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  const earlier = await ringNow()
  const over = new AbortController()
  let done = 0
  const repeat = async (work: () => Promise<unknown>): Promise<void> => {
    while (!over.signal.aborted) {
      await work()
      done++
    }
  }
  const uris = [place.uri, place.uri.replace(place.endpoint_id, `${place.endpoint_id}-pooler`)]
  const kept = await connect(neap, place.uri)
  // Stays below the rate limit of a key.
  const pause = () => sleep(20)
  const load = Promise.all([
    ...uris.map((uri) => repeat(() => query(neap, uri, 'insert into kept select 1 where false'))),
    repeat(() => kept.query('select 1')),
    repeat(async () => {
      assert.equal((await send(neap, 'GET', '/projects', { key })).status, 200)
      await pause()
    }),
    repeat(async () => {
      assert.equal(await revealed(place), new URL(place.uri).password)
      await pause()
    }),
  ])
  // A failure is that of the test when it awaits the load; unhandled, it would end the test amid a rotation.
  load.catch(() => over.abort())
  for (let count = 0; count < 3; count++) await rotate()
  const during = done
  await until('clients that go on', () => over.signal.aborted || done > during + 20)
  over.abort()
  await load
  await kept.end()

  const now = await ringNow()
  assert.equal(now.generations.filter(({ state }) => state === 'current').length, 1)
  assert.deepEqual(
    now.generations.filter(({ state, master }) => state !== 'current' && master),
    [],
  )
  const { encrypted } = await report()
  assert.deepEqual([encrypted.earlier, encrypted.unreadable], [0, 0])
  await expectAllRefused(earlier)
  await expectWorking()
})

/** Asserts that earlier keys open neither the compute nor the catalog. */
async function expectAllRefused(old: Ring): Promise<void> {
  await expectComputeRefused(old)
  const password = storeSecrets(() => keysFor('all', old)).admin('catalog')[0]
  await refuses(join(neap.ready.data_dir, 'run/catalog'), 'neap_admin', password)
}

async function expectComputeRefused(old: Ring): Promise<void> {
  const stores = storeSecrets(() => keysFor('all', old))
  const host = (await computeOf(neap, place))?.socket_dir ?? ''
  await refuses(host, 'neap_admin', stores.admin(place.branch_id)[0])
  await refuses(host, 'neap_login_reader', stores.loginReader(place.branch_id)[0])
}

async function refuses(host: string, user: string, password: string | undefined): Promise<void> {
  const client = new pg.Client({ host, port: 5432, user, password, database: 'neap' })
  await assert.rejects(client.connect(), { code: '28P01' }, `${user} at ${host}`)
}

const STEPS: RotationStep[] = ['made', 'current', 'sealed', 'stores', 'catalog', 'authority']
const SCRIPT = fileURLToPath(new URL('../rotate_and_die.ts', import.meta.url))

async function rotateAndDie(when: string): Promise<void> {
  const { code } = await run(process.execPath, [SCRIPT, when], environment())
  // A rotation faster than the timer ends by itself.
  assert.ok(code === -1 || (code === 0 && /^\d+$/.test(when)), `it ended with ${code}`)
}

for (const step of STEPS)
  test(`a rotation killed after "${step}" leaves a working Neap and resumes`, async () => {
    const earlier = await ringNow()
    await rotateAndDie(step)
    await expectWorking()
    const half = await ringNow()
    assert.equal(half.generations.length, earlier.generations.length + 1)
    await rotate()
    assert.equal((await ringNow()).generations.length, half.generations.length, 'it made another key')
    await expectAllRefused(earlier)
    await expectWorking()
  })

test('a rotation killed with all of Neap at a random moment resumes after the next start', async () => {
  const random = randomFrom(Number(process.env['NEAP_ROTATION_SEED'] ?? 11))
  for (let count = 0; count < 3; count++) {
    await rotateAndDie(String(random.between(200, 900)))
    await neap.kill()
    neap = await startNeap({ dataDir: neap.ready.data_dir })
    await expectWorking()
  }
  await rotate()
  await expectWorking()
})

test('the catalog restarts after a rotation', async () => {
  await rotate()
  const [catalog] = postmastersOf(neap.ready.data_dir).filter(({ command }) => command.includes('/catalog/'))
  await kill(catalog?.pid)
  await until('the catalog', async () => {
    try {
      return (await catalogQuery(neap, 'select 1')).length === 1
    } catch {
      return false
    }
  })
  await expectWorking()
})

test('a project that is made after a rotation has a history from its creation on', async () => {
  const made = await newProject(neap)
  await query(neap, made.uri, 'create table entry (id int)')
  const [now] = await query<{ at: string }>(
    neap,
    made.uri,
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
  )
  await query(neap, made.uri, 'insert into entry values (1)')
  const { operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: made.project_id },
    body: { branch: { parent_id: made.branch_id, parent_timestamp: now?.at ?? '' } },
  })
  await neap.ended(operations)
})

test('a damaged row does not keep other rows under an old key', async () => {
  const damaged = await catalogQuery(
    neap,
    "update role set password = password || '\\x00'::bytea where name = $1 and branch_id = $2 returning 1",
    [roleOf(place), place.branch_id],
  )
  assert.equal(damaged.length, 1)
  await rotate()
  const { encrypted } = await report()
  assert.deepEqual([encrypted.earlier, encrypted.unreadable], [0, 1])
  await resetPassword()
  await expectWorking()
})

test('an unresponsive compute does not keep others from their new passwords', { timeout: 180_000 }, async () => {
  const frozen = await branchOff(neap, place)
  for (const each of [place, frozen]) {
    await query(neap, each.uri, 'select 1')
    await settled(neap, each, 'active')
  }
  const earlier = await ringNow()
  const pid = (await computeOf(neap, frozen))?.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  try {
    const { code, stderr } = await neapRun(['secrets', 'rotate'], environment())
    assert.equal(code, 1)
    assert.match(stderr, /do not answer: .*run this again/)
    await expectComputeRefused(earlier)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await rotate()
  await query(neap, frozen.uri, 'select 1')
  await expectWorking()
})

test('an unused API key moves to the current key at its next use', async () => {
  const seldom = await neap.call('POST /api_keys', { body: { key_name: 'seldom' } })
  await rotate()
  await rotate()
  assert.ok((await report()).api_keys_under_earlier_key >= 1)
  // Parts cache API keys for some seconds.
  await until('the move of both keys', async () => {
    for (const used of [seldom.key, key])
      assert.equal((await send(neap, 'GET', '/projects', { key: used })).status, 200)
    return (await report()).api_keys_under_earlier_key === 0
  })
  await rotate()
  const { generations } = await ringNow()
  assert.equal(generations.filter(({ apiKey }) => apiKey).length, 1, 'of the last rotation, since which none was used')
})

/** Returns true when a client that trusts these authorities accepts the proxy's certificate. */
async function trusts(ca: string): Promise<boolean> {
  const socket: TLSSocket = connectTls({
    host: '127.0.0.1',
    port: neap.ready.proxy_port,
    ca,
    servername: 'localhost',
    ALPNProtocols: ['postgresql'],
  })
  return (await new Promise((resolve) => {
    socket.once('secureConnect', () => resolve(true)).once('error', () => resolve(false))
  }).finally(() => socket.destroy())) as boolean
}

test('verifying clients get the next authority before it is used', async () => {
  const file = neap.ready.ca_file
  await rotate()
  const both = readFileSync(file, 'utf8')
  assert.equal(both.split('BEGIN CERTIFICATE').length - 1, 2)
  const old = `${both.split('-----END CERTIFICATE-----')[0]}-----END CERTIFICATE-----\n`
  assert.deepEqual([await trusts(both), await trusts(old)], [true, true])
  const { code, stderr } = await neapRun(['secrets', 'rotate-authority'], environment())
  assert.equal(code, 0, stderr)
  await until('the new certificate', async () => !(await trusts(old)))
  assert.deepEqual([await trusts(both), await trusts(readFileSync(file, 'utf8'))], [true, true])
  assert.equal((await neapRun(['secrets', 'rotate-authority'], environment())).code, 1)
})

test('a lost key loses no data', { timeout: 240_000 }, async () => {
  const dataDir = neap.ready.data_dir
  const asleep = await branchOff(neap, place)
  await suspend(neap, asleep)
  await neap.stop({ keep: true })
  const file = join(dataDir, 'secret.key')
  const away = mkdtempSync(join(tmpdir(), 'neap-away-'))
  renameSync(file, join(away, 'secret.key'))
  rmSync(join(dataDir, 'keys'), { recursive: true })
  const up = () => neapRun(['up', '--data-dir', dataDir, '--api-port', '0', '--proxy-port', '0'], envOf(dataDir))
  const missing = await up()
  assert.equal(missing.code, 1)
  assert.match(missing.stderr, /is missing: put it back from a backup.*replace-lost-key/)

  // Another data directory's key is refused as well.
  const other = newDataDir()
  const another = await startNeap({ dataDir: other, args: ['--no-project'] })
  await another.stop({ keep: true })
  writeFileSync(file, readFileSync(join(other, 'secret.key')), { mode: 0o600 })
  await leaveNothing(other)
  const wrong = await up()
  assert.equal(wrong.code, 1)
  assert.match(wrong.stderr, /secret.key is not the one that .* was made with: put that one back/)
  rmSync(file)

  assert.equal((await neapRun(['secrets', 'replace-lost-key', '--yes'], envOf(dataDir))).code, 0)
  neap = await startNeap({ dataDir })
  for (const { uri } of [place, asleep])
    assert.deepEqual(await query(neap, uri, 'select count(*)::int from kept'), [{ count: 100 }])
  refused(await send(neap, 'GET', '/projects', { key }), 401, 'UNAUTHENTICATED', /unknown/)
  key = neap.ready.api_key ?? ''
  assert.equal((await send(neap, 'GET', '/projects', { key })).status, 200)
  const path = `/projects/${place.project_id}/branches/${place.branch_id}/roles/${roleOf(place)}`
  refused(await send(neap, 'GET', `${path}/reveal_password`, { key }), 422, 'NOT_ALLOWED', /key that is lost/)
  assert.ok((await report()).encrypted.unreadable > 0)
  await resetPassword()
  await expectWorking()
  await rotate()
  await expectWorking()
  rmSync(away, { recursive: true })
})
