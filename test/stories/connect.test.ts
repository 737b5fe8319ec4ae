import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { conninfo, connect, direct, psql, query, without } from '../clients.ts'
import {
  controlPlane,
  envOf,
  leaveNothing,
  type Neap,
  NEAP,
  neapRun,
  newDataDir,
  run,
  spawnNeap,
  startNeap,
} from '../neap.ts'
import { postmastersOf, until } from '../processes.ts'
import { computeOf, endpointOf, firstPlace, operationsOf, type Place, settled, suspend } from '../project.ts'

/* All ways to connect, to an endpoint that is active, idle, disabled or does not exist. */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})

after(() => neap?.stop())

const skip = without('psql')
const SELECT = 'select 6 * 7'

async function answers(connection: string): Promise<void> {
  assert.deepEqual(await psql(connection, SELECT), { code: 0, stdout: '42', stderr: '' })
}

async function refused(connection: string, why: RegExp): Promise<void> {
  const { code, stderr } = await psql(connection, SELECT)
  assert.equal(code, 2)
  assert.match(stderr, why)
}

const bySni = (id = place.endpoint_id) => ({ host: `${id}.local.localhost`, hostaddr: '127.0.0.1', options: undefined })

test('psql connects with the printed command', { skip }, () => answers(place.uri))

test('psql verifies the server against the printed authority', { skip }, async () => {
  const verify = { sslmode: 'verify-full', sslrootcert: neap.ready.ca_file }
  await answers(conninfo(place.uri, verify))
  await answers(conninfo(place.uri, { ...verify, ...bySni() }))
  await refused(conninfo(place.uri, { ...verify, ...bySni(), host: 'elsewhere.example' }), /does not match host name/)
})

test('a suspended endpoint wakes for psql, and its operations show that', { skip }, async () => {
  await suspend(neap, place)
  assert.equal((await endpointOf(neap, place)).current_state, 'idle')
  const verify = { sslmode: 'verify-full', sslrootcert: neap.ready.ca_file }
  await answers(conninfo(place.uri, verify))
  await settled(neap, place, 'active')
  const [last, before_last] = await operationsOf(neap, place)
  assert.deepEqual([last?.action, last?.status], ['start_compute', 'finished'])
  assert.deepEqual([before_last?.action, before_last?.status], ['suspend_compute', 'finished'])
})

test('committed rows are there after a suspend', async () => {
  await query(neap, place.uri, 'create table kept as select generate_series(1, 1000) as number')
  await suspend(neap, place)
  assert.deepEqual(await query(neap, place.uri, 'select sum(number)::int as sum from kept'), [{ sum: 500_500 }])
})

test('a pooled host is served', { skip }, async () => {
  await answers(conninfo(place.uri, bySni(`${place.endpoint_id}-pooler`)))
  await answers(place.uri.replace(place.endpoint_id, `${place.endpoint_id}-pooler`))
})

test('a connection without TLS is refused', { skip }, () =>
  refused(conninfo(place.uri, { sslmode: 'disable' }), /connection is insecure \(try using `sslmode=require`\)/),
)

test(
  'an unknown endpoint is refused as a wrong password; without an endpoint the error has a hint',
  { skip },
  async () => {
    const unknown = /password authentication failed for user "neondb_owner"/
    await refused(place.uri.replace(place.endpoint_id, 'ep-no-such-12345678'), unknown)
    await refused(conninfo(place.uri, bySni('ep-no-such-12345678')), unknown)
    await refused(conninfo(place.uri, { options: undefined }), /Endpoint ID is not specified/)
  },
)

test('a wrong password and an unknown role are refused', { skip }, async () => {
  await refused(conninfo(place.uri, { password: 'wrong' }), /password authentication failed for user "neondb_owner"/)
  await refused(conninfo(place.uri, { user: 'nobody' }), /password authentication failed for user "nobody"/)
  await refused(conninfo(place.uri, { user: 'neap_admin' }), /password authentication failed for user "neap_admin"/)
})

test('a disabled endpoint is refused until it is enabled', { skip }, async () => {
  const params = { project_id: place.project_id, endpoint_id: place.endpoint_id }
  const patch = async (disabled: boolean) => {
    const body = { endpoint: { disabled } }
    await neap.ended(
      (await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params, body })).operations,
    )
  }
  await patch(true)
  assert.equal(await computeOf(neap, place), undefined)
  await refused(place.uri, /The endpoint has been disabled. Enable it using the API and retry/)
  await patch(false)
  await answers(place.uri)
})

test('neap psql works without an installed psql', async () => {
  const bin = mkdtempSync(join(tmpdir(), 'neap-bin-'))
  for (const program of ['dirname', 'readlink', 'uname']) {
    symlinkSync((await run('sh', ['-c', `command -v ${program}`])).stdout.trim(), join(bin, program))
  }
  const env = envOf(neap.ready.data_dir, { PATH: bin })
  const row = await neapRun(['psql', '-c', `${SELECT} as answer`], env)
  assert.deepEqual([row.code, row.stdout], [0, 'answer\n42\n(1 row)\n'], row.stderr)
  const wrong = await neapRun(['psql', '-c', 'select nothing'], env)
  assert.deepEqual([wrong.code, wrong.stderr], [1, 'ERROR:  column "nothing" does not exist\n'])
  // Through a pipe: no prompt, the last semicolon is optional, and a failure sets the exit code.
  const piped = (sql: string) =>
    run('sh', ['-c', `printf %s "$SQL" | "$NEAP" psql`], { ...envOf(neap.ready.data_dir), NEAP, SQL: sql })
  assert.deepEqual(await piped(`${SELECT} as answer;\nselect 1 as one`), {
    code: 0,
    stdout: 'answer\n42\n(1 row)\none\n1\n(1 row)\n',
    stderr: '',
  })
  const failed = await piped('select nothing;\nselect 1 as one;')
  assert.deepEqual([failed.code, failed.stdout], [1, 'one\n1\n(1 row)\n'])
  rmSync(bin, { recursive: true })
})

test('neap psql passes arguments, streams and the exit code of psql', { skip }, async () => {
  const env = envOf(neap.ready.data_dir)
  const file = join(neap.ready.data_dir, 'x.sql')
  writeFileSync(file, 'select 3')
  const { branch_id } = place
  for (const [given, printed] of [
    [['--', '-XAt', '-c', 'select 1', '-f', file], '1\n3\n'],
    [['-XAtc', 'select 1'], '1\n'],
    [['-XAt', '-c', 'select 1', '-c', 'select 2'], '1\n2\n'],
    [[branch_id, '-XAt', '-f', file], '3\n'],
    [[branch_id, '-d', 'neondb', '--', '-XAt', '-v', 'x=7', '-f', '-'], '7\n'],
  ] as const) {
    const ran = await run('sh', ['-c', `printf 'select :x;' | "$NEAP" psql "$@"`, 'sh', ...given], { ...env, NEAP })
    assert.deepEqual([ran.code, ran.stdout], [0, printed], ran.stderr)
  }
  // Connection settings for other servers in the environment are ignored.
  const elsewhere = { ...env, PGHOSTADDR: '192.0.2.1', PGSERVICE: 'other', PGSSLMODE: 'disable', PGPORT: '1' }
  const secure = await neapRun(
    ['psql', '--', '-XAtc', 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'],
    elsewhere,
  )
  assert.equal(secure.code, 0, secure.stderr)
  assert.equal((await neapRun(['psql', '--', '-c', 'select nothing'], env)).code, 1)
  assert.equal((await neapRun(['psql', '--', '-v', 'ON_ERROR_STOP=1', '-f', '/nowhere.sql'], env)).code, 1)
  const script = `echo 'select nothing;' | "$NEAP" psql -- -v ON_ERROR_STOP=1 -f -`
  assert.equal((await run('sh', ['-c', script], { ...env, NEAP })).code, 3)
  const mixed = await neapRun(['psql', '-f', file, '-c', 'select 1'], env)
  assert.deepEqual([mixed.code, mixed.stdout], [1, ''])
  assert.match(mixed.stderr, /Put -c and -f behind --/)
})

test('neap psql reaches an endpoint whose host name does not resolve', async (t) => {
  const dataDir = newDataDir()
  // Names in that domain never resolve (RFC 6761, section 6.4).
  const env = { NEAP_DOMAIN: 'neap.invalid' }
  const other = await startNeap({ dataDir, env })
  t.after(() => other.stop())
  const { uri, endpoint_id } = await firstPlace(other)
  const url = new URL(uri)
  const host = `${endpoint_id}.local.neap.invalid`
  assert.deepEqual([url.hostname, url.searchParams.get('options')], ['localhost', `endpoint=${host}`])
  const named = `postgresql://${url.username}:${url.password}@${host}:${url.port}${url.pathname}?sslmode=require`
  for (const each of [uri, named]) {
    const { code, stdout, stderr } = await neapRun(['psql', each, '-c', `${SELECT} as answer`], envOf(dataDir, env))
    assert.deepEqual([code, stdout], [0, 'answer\n42\n(1 row)\n'], stderr)
  }
})

test('the printed commands work when pasted', { skip }, async (t) => {
  const dataDir = newDataDir()
  t.after(() => leaveNothing(dataDir))
  const env = envOf(dataDir)
  const child = spawnNeap(['up', '--api-port', '0', '--proxy-port', '0'], env)
  let printed = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (printed += text))
  await until('the end of what is printed', () => printed.includes('Ctrl-C'))
  const line = /^ +(psql '.*')$/m.exec(printed)?.[1] ?? ''
  assert.equal((await run('sh', ['-c', `${line} -XAtqc '${SELECT}'`])).stdout, '42\n', printed)
  const curl = /^ +curl .*$/m.exec(printed)?.[0] ?? ''
  const key = /^ +(export NEAP_API_KEY=\S+)$/m.exec(printed)?.[1] ?? ''
  if (!without('curl')) {
    const { stdout } = await run('sh', ['-c', `${key}; ${curl}`])
    assert.deepEqual(Object.keys(JSON.parse(stdout) as object), ['operations', 'pagination'])
  }
  assert.match((await neapRun(['status'], env)).stdout, /^ep-\S+ +br-\S+ +active +0.25 CU +\d+ +\d+ s +\d+ MiB$/m)
  child.kill('SIGINT')
  assert.deepEqual(await once(child, 'exit'), [0, null])
})

test("api, worker and proxy run separately on an operator's catalog", async (t) => {
  // A database of the first Neap serves as that Postgres; its owner is not a superuser.
  const compute = await until('a compute runs', () => computeOf(neap, place))
  const dataDir = newDataDir()
  t.after(() => leaveNothing(dataDir))
  const env = { NEAP_CATALOG_URL: direct(place.uri, compute) }
  const whole = await startNeap({ dataDir, args: ['--leave-running'], env })
  const there = await firstPlace(whole)
  const { pid } = (await computeOf(whole, there)) ?? {}
  assert.equal(await whole.end(), 0)
  assert.deepEqual(controlPlane(dataDir), [])
  assert.deepEqual(
    postmastersOf(dataDir).map((postmaster) => postmaster.pid),
    [pid],
  )

  const ports = { NEAP_API_PORT: new URL(whole.ready.api_url).port, NEAP_PROXY_PORT: String(whole.ready.proxy_port) }
  const byHand = ['api', 'worker', 'proxy'].map((name) => spawnNeap([name], envOf(dataDir, { ...env, ...ports })))
  await until('an API that answers', () => whole.call('GET /projects', {}).catch(() => undefined))
  const client = await until('a proxy that answers', () => connect(whole, there.uri).catch(() => undefined))
  await client.query('create table by_hand ()')
  await client.end()
  assert.equal((await computeOf(whole, there))?.pid, pid)
  await suspend(whole, there)
  assert.deepEqual(await query(whole, there.uri, 'select count(*)::int from by_hand'), [{ count: 0 }])

  for (const part of byHand) part.kill('SIGTERM')
  const ended = byHand.map(async (part) => part.exitCode ?? ((await once(part, 'exit')) as [number])[0])
  assert.deepEqual(await Promise.all(ended), [0, 0, 0])
  const again = await startNeap({ dataDir, env })
  assert.equal(again.ready.api_key, null)
  await again.stop()
})
