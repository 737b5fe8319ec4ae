import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:https'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { makeClient } from '../../src/client.ts'
import { catalogQuery } from '../admin.ts'
import { connect, query, without } from '../clients.ts'
import { peer, withoutPeers } from '../clients/peers.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { CODE, startPsql, type WaitingPsql, withoutPassword } from '../waiting_psql.ts'
import { endpointOf, firstPlace, operationsOf, type Place, suspend } from '../project.ts'

/* Clients that give no password, and the people that let them in. */

let neap: Neap
let place: Place
let role: string

before(async () => {
  neap = await startNeap({ env: { NEAP_PROXIES: '2', NEAP_PROXY_DRAIN: '1' } })
  place = await firstPlace(neap)
  role = new URL(place.uri).username
  await allow(true)
})

after(() => neap?.stop())

const skip = without('psql')

const endpointParams = () => ({ project_id: place.project_id, endpoint_id: place.endpoint_id })

async function allow(passwordless_access: boolean): Promise<void> {
  const body = { endpoint: { passwordless_access } }
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params: endpointParams(), body })
}

const running = new Set<WaitingPsql>()
after(() => {
  for (const { process: child } of running) child.kill('SIGKILL')
})

/** Runs psql without a password. */
function ask(connection = withoutPassword(place.uri), sql?: string, env?: NodeJS.ProcessEnv): WaitingPsql {
  const asking = startPsql(connection, sql, env)
  running.add(asking)
  void asking.ended.then(() => running.delete(asking))
  return asking
}

const approve = (code: string) => neap.call('POST /passwordless_logins/:code/approve', { params: { code } })
const show = async (code: string) =>
  (await neap.call('GET /passwordless_logins/:code', { params: { code } })).passwordless_login

test('psql shows a link and a code, and is let in by an approval, while the compute sleeps', { skip }, async () => {
  await suspend(neap, place)
  const earlier = (await operationsOf(neap, place)).length
  const asking = ask(withoutPassword(place.uri), 'select current_user', { PGAPPNAME: 'an application' })
  const code = await asking.code()
  const origin = new URL(neap.ready.api_url).origin
  assert.match(asking.stderr(), new RegExp(`Open ${origin}/approve/${code} .*npx neap approve ${code}`))
  const shown = await show(code.toLowerCase().replace('-', ''))
  assert.deepEqual(
    [shown.status, shown.endpoint_id, shown.role_name, shown.database_name, shown.client_address],
    ['pending', place.endpoint_id, role, new URL(place.uri).pathname.slice(1), '127.0.0.1'],
  )
  assert.equal(shown.application_name, 'an application')
  assert.equal((await endpointOf(neap, place)).current_state, 'idle')
  assert.equal((await operationsOf(neap, place)).length, earlier, 'a client without a password woke a compute')
  assert.equal((await approve(code)).passwordless_login.status, 'approved')
  assert.equal(await asking.ended, 0)
  assert.equal(asking.stdout(), role)
  await assert.rejects(approve(code), { code: 'CONFLICT' })
})

test('the command line shows the login and lets it in, or refuses it', { skip }, async () => {
  const env = envOf(neap.ready.data_dir)
  const asking = ask()
  const approved = await neapRun(['approve', await asking.code()], env)
  assert.match(approved.stdout, /CLIENT ADDRESS +127\.0\.0\.1\n[^]*STATUS +approved/)
  assert.equal(await asking.ended, 0)
  const other = ask()
  assert.match((await neapRun(['approve', '--refuse', await other.code()], env)).stdout, /STATUS +refused/)
  assert.equal(await other.ended, 2)
  assert.match(other.stderr(), /FATAL: {2}The login was refused/)
  assert.equal((await neapRun(['approve', '0000-0000'], env)).code, 1)
})

test('node-postgres is let in, and its session is an ordinary one', async () => {
  const url = new URL(withoutPassword(place.uri))
  url.searchParams.delete('sslmode')
  const ssl = { ca: readFileSync(neap.ready.ca_file, 'utf8') }
  const client = new pg.Client({ connectionString: url.href.replaceAll('+', '%20'), ssl })
  const noticed = once(client, 'notice') as Promise<[{ message: string }]>
  const connected = client.connect()
  const [{ message }] = await noticed
  await approve(CODE.exec(message)?.[0] ?? '')
  await connected
  try {
    assert.deepEqual((await client.query('select current_user as name')).rows, [{ name: role }])
    const { processID } = client as unknown as { processID: number }
    assert.ok(processID > 0)
  } finally {
    await client.end()
  }
})

const PYTHON = 'python/bin/python'
/** A psycopg.Connection drops notices until it is made: its PGconn shows them while it connects. */
const PSYCOPG = `
import select, sys, psycopg
from psycopg import pq
conn = pq.PGconn.connect_start(sys.argv[1].encode())
conn.notice_handler = lambda notice: print(notice.error_message.decode(), file=sys.stderr, flush=True)
while (status := conn.connect_poll()) != pq.PollingStatus.OK:
    if status == pq.PollingStatus.FAILED: sys.exit(conn.error_message.decode())
    wait = [conn.socket]
    if status == pq.PollingStatus.READING: select.select(wait, [], [])
    else: select.select([], wait, [])
print(psycopg.Connection(conn).execute('select current_user').fetchone()[0])
`

test('psycopg is given the notice while it connects, and is let in', { skip: withoutPeers(PYTHON) }, async () => {
  const child = spawn(peer(PYTHON), ['-c', PSYCOPG, withoutPassword(place.uri)])
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = once(child, 'close')
  await approve(await until('a code', async () => CODE.exec(stderr)?.[0]))
  assert.deepEqual(await ended, [0, null], stderr)
  assert.equal(stdout.trim(), role)
})

test('each approval lets one connection in, and every change of hands is audited', { skip }, async () => {
  const [one, other] = [ask(), ask()]
  const [code, second] = [await one.code(), await other.code()]
  const { passwordless_login: login } = await approve(code)
  assert.equal(await one.ended, 0)
  assert.equal((await show(second)).status, 'pending')
  other.process.kill()
  await until('the login is withdrawn', async () => (await show(second)).status === 'withdrawn')
  await assert.rejects(approve(second), /waits no more/)
  const { audit } = await neap.call('GET /audit', { query: { limit: 1000, project_id: place.project_id } })
  const rows = audit.filter(({ request_id }) => request_id === login.id)
  assert.deepEqual(
    rows.map(({ action, subject, address }) => [action, subject, address]),
    ['approved', 'asked'].map((what) => [
      `passwordless_login.${what}`,
      `/endpoints/${place.endpoint_id}/roles/${role}`,
      '127.0.0.1',
    ]),
  )
})

test('a login whose time is over is not approved', { skip }, async () => {
  const asking = ask()
  const code = await asking.code()
  await catalogQuery(neap, `update passwordless_login set expires_at = clock_timestamp() where status = 'pending'`)
  assert.equal((await show(code)).status, 'expired')
  await assert.rejects(approve(code), /two minutes are over/)
  asking.process.kill()
  await asking.ended
})

test('a role whose password was set by SQL is not let in, and the answer says why', { skip }, async () => {
  await query(neap, place.uri, `create role by_sql login password 'its own password'`)
  const asking = ask(withoutPassword(place.uri, 'by_sql'))
  await assert.rejects(approve(await asking.code()), /password of the role "by_sql" was set by SQL/)
  asking.process.kill()
  await asking.ended
})

test('an endpoint that is off, unknown or disabled, and an own role of Neap, are refused alike', { skip }, async () => {
  const refused = async (connection: string): Promise<void> => {
    const asking = ask(connection)
    assert.equal(await asking.ended, 2)
    assert.match(asking.stderr(), /FATAL: {2}Passwordless login is not available here/)
  }
  await refused(withoutPassword(place.uri, 'neap_admin'))
  await refused(withoutPassword(place.uri).replaceAll(place.endpoint_id, 'ep-nowhere-isle-0aaaaaaa'))
  await allow(false)
  await refused(withoutPassword(place.uri))
  await allow(true)
})

test('a login is not approved where the access was taken back meanwhile', { skip }, async () => {
  const asking = ask()
  const code = await asking.code()
  await allow(false)
  await assert.rejects(approve(code), /was changed since/)
  await allow(true)
  await approve(code)
  assert.equal(await asking.ended, 0)
})

test('addresses that are not allowed, pooled hosts and SQL over HTTP are refused', { skip }, async () => {
  const { project_id } = place
  const allowOnly = async (ips: string[]) => {
    const body = { project: { settings: { allowed_ips: { ips, protected_branches_only: false } } } }
    await neap.call('PATCH /projects/:project_id', { params: { project_id }, body })
  }
  await allowOnly(['192.0.2.1'])
  const stranger = ask()
  assert.equal(await stranger.ended, 2)
  assert.match(stranger.stderr(), /Passwordless login is not available here/)
  await allowOnly([])
  const pooled = ask(withoutPassword(place.uri).replace(place.endpoint_id, `${place.endpoint_id}-pooler`))
  assert.equal(await pooled.ended, 2)
  assert.match(pooled.stderr(), /not supported on a pooled connection/)
  // Over HTTP the word is ignored, and the password counts.
  const { status, text } = await postSql(withoutPassword(place.uri))
  assert.equal(status, 400, text)
  assert.ok(!text.includes('approve'), text)
})

/** Sends a query over HTTP. */
async function postSql(connection: string): Promise<{ status: number; text: string }> {
  const { hostname, port } = new URL(place.uri)
  return new Promise((resolve, reject) => {
    const headers = { 'neon-connection-string': connection, 'content-type': 'application/json' }
    const options = { hostname, port, path: '/sql', method: 'POST', headers, rejectUnauthorized: false }
    const sent = request(options, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text += part))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    sent.on('error', reject).end(JSON.stringify({ query: 'select 1', params: [] }))
  })
}

test('an approval arrives though its proxies have just lost their sessions in the catalog', { skip }, async () => {
  const asking = ask()
  const code = await asking.code()
  await catalogQuery(neap, `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'neap_proxy'`)
  await approve(code)
  assert.equal(await asking.ended, 0)
})

test('the plain host of an endpoint with pooler_enabled lets the one session in', { skip }, async () => {
  const pool = (pooler_enabled: boolean) =>
    neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
      params: endpointParams(),
      body: { endpoint: { pooler_enabled } },
    })
  await pool(true)
  const asking = ask()
  await approve(await asking.code())
  assert.equal(await asking.ended, 0)
  const { applications } = (
    await query<{ applications: string[] }>(
      neap,
      place.uri,
      `select array_agg(usename::text) as applications from pg_stat_activity where application_name = 'psql'`,
    )
  )[0] as { applications: string[] | null }
  assert.equal(applications, null, 'a session of an approved login was kept for others')
  await pool(false)
})

test('a proxy that ends tells those that wait', { skip }, async () => {
  const asking = ask()
  const code = await asking.code()
  for (const pid of neap.parts('proxy')) process.kill(pid, 'SIGTERM')
  assert.equal(await asking.ended, 2)
  assert.match(asking.stderr(), /terminating connection due to administrator command/)
  await until('the login is withdrawn', async () => (await show(code)).status === 'withdrawn')
})

test('clients that give their password log in as before, with channel binding', { skip }, async () => {
  const url = new URL(place.uri)
  url.searchParams.set('channel_binding', 'require')
  const asking = ask(url.href)
  assert.equal(await asking.ended, 0)
  assert.deepEqual([asking.stdout(), asking.stderr()], [role, ''])
  await (await connect(neap, place.uri)).end()
})

test('a viewer sees a login and cannot answer it; a key of another project does not see it', { skip }, async () => {
  const keyOf = async (body: { scope: 'read' | 'write'; project_id?: string }) => {
    const { key } = await neap.call('POST /api_keys', { body: { key_name: 'a key', ...body } })
    return makeClient({ url: neap.ready.api_url, key })
  }
  const asking = ask()
  const params = { code: await asking.code() }
  const viewer = await keyOf({ scope: 'read' })
  assert.equal((await viewer('GET /passwordless_logins/:code', { params })).passwordless_login.status, 'pending')
  for (const answer of ['approve', 'refuse'] as const)
    await assert.rejects(viewer(`POST /passwordless_logins/:code/${answer}`, { params }), { code: 'FORBIDDEN' })
  const made = await neap.call('POST /projects', { body: { project: {} } })
  const stranger = await keyOf({ scope: 'write', project_id: made.project.id })
  await assert.rejects(stranger('GET /passwordless_logins/:code', { params }), { code: 'NOT_FOUND' })
  await assert.rejects(stranger('POST /passwordless_logins/:code/approve', { params }), { code: 'NOT_FOUND' })
  const own = await keyOf({ scope: 'write', project_id: place.project_id })
  await own('POST /passwordless_logins/:code/approve', { params })
  assert.equal(await asking.ended, 0)
})
