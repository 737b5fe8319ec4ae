import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { CATALOG_PROXY, type EmbeddedLogin, loginConfig } from '../../src/catalog/embedded.ts'
import { createHandoverKeys } from '../../src/key_handover.ts'
import { makeClient } from '../../src/client.ts'
import { messageOf } from '../../src/errors.ts'
import { newLoginCode } from '../../src/login_code.ts'
import { partKeysFile } from '../../src/secrets/part_keys.ts'
import { loadPartSecrets } from '../../src/secrets/secrets.ts'
import { catalogQuery } from '../admin.ts'
import { connect, without } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, newProject, type Place } from '../project.ts'
import { makeWaitingLogin } from '../waiting_login.ts'
import { CODE, startPsql, type WaitingPsql, withoutPassword } from '../waiting_psql.ts'

/* Strangers at an endpoint with passwordless access, and a compromised proxy beside the one that asked. */

let neap: Neap
let place: Place
const running: WaitingPsql[] = []

before(async () => {
  neap = await startNeap({ env: { NEAP_RATE_LIMIT_PER_MINUTE: '300', NEAP_PROXIES: '1' } })
  place = await firstPlace(neap)
  await allow(place)
})

after(async () => {
  for (const { process: child } of running) child.kill('SIGKILL')
  await neap?.stop()
})

const skip = without('psql')

async function allow({ project_id, endpoint_id }: Place): Promise<void> {
  const body = { endpoint: { passwordless_access: true } }
  await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', { params: { project_id, endpoint_id }, body })
}

function ask(uri = place.uri): WaitingPsql {
  const asking = startPsql(withoutPassword(uri))
  running.push(asking)
  return asking
}

const approve = (code: string) => neap.call('POST /passwordless_logins/:code/approve', { params: { code } })

/** A session in the catalog as a proxy has it. */
async function asProxy<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const secrets = await loadPartSecrets(partKeysFile(neap.ready.data_dir, 'proxy'), 'proxy')
  const login: EmbeddedLogin = {
    runtimeDir: join(neap.ready.data_dir, 'run'),
    user: CATALOG_PROXY,
    passwords: secrets.catalogPasswords,
  }
  const client = new pg.Client(loginConfig(login, () => secrets.catalogPasswords()[0]))
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

const TAKE = 'select * from take_passwordless_login($1, $2, $3)'

test('keys that are handed over are read by the proxy that asked, once, and by no other session', () =>
  asProxy(async (client) => {
    const login = await makeWaitingLogin(neap, place.endpoint_id, 'neondb_owner')
    await approve(login.code)
    await assert.rejects(client.query('select * from passwordless_login'), { code: '42501' })
    await assert.rejects(client.query(`update passwordless_login set public_key = 'x'`), { code: '42501' })
    const take = async (id: string, secret: Buffer) =>
      (await client.query<{ answer: string | null; keys: Buffer | null }>(TAKE, [id, secret, true])).rows[0]
    assert.deepEqual(await take(login.id, randomBytes(32)), { answer: null, keys: null })
    const taken = await take(login.id, login.secret)
    assert.equal(taken?.answer, 'approved')
    assert.deepEqual(await take(login.id, login.secret), { answer: 'taken', keys: null })
    const [row] = await catalogQuery<{ status: string; sealed_keys: Buffer | null }>(
      neap,
      'select status, sealed_keys from passwordless_login where id = $1',
      [login.id],
    )
    assert.deepEqual(row, { status: 'taken', sealed_keys: null })

    const context = { loginId: login.id, endpointId: place.endpoint_id, role: 'neondb_owner' }
    const sealed = taken.keys as Buffer
    assert.equal(login.handover.open(sealed, context).length, 64)
    assert.throws(() => createHandoverKeys().open(sealed, context))
    for (const other of [{ loginId: 'another' }, { endpointId: 'ep-another' }, { role: 'another' }])
      assert.throws(() => login.handover.open(sealed, { ...context, ...other }))
    sealed.writeUInt8(sealed.readUInt8(40) ^ 1, 40)
    assert.throws(() => login.handover.open(sealed, context))
  }))

test('a waiting client gets neither rows nor a wake by what it sends early', { skip }, async () => {
  const client = new pg.Client({
    host: '127.0.0.1',
    port: Number(new URL(place.uri).port),
    user: 'neondb_owner',
    database: 'neondb',
    options: `endpoint=${place.endpoint_id} passwordless`,
    ssl: { rejectUnauthorized: false },
  })
  client.on('error', () => {})
  const noticed = new Promise<string>((resolve) => client.once('notice', ({ message }) => resolve(String(message))))
  const connected = client.connect()
  const code = CODE.exec(await noticed)?.[0] ?? ''
  const { stream } = (client as unknown as { connection: { stream: NodeJS.WritableStream } }).connection
  const early = Buffer.from('Q\0\0\0\x0dselect 1\0')
  stream.write(early)
  // Over the limit of early bytes, the login ends.
  stream.write(Buffer.alloc(8_192, early))
  await assert.rejects(connected, /unexpected data before the login/)
  await assert.rejects(approve(code), { code: 'CONFLICT' })
})

test('guesses of a code are answered alike for all that exist elsewhere, and run into the limits', async () => {
  const login = await makeWaitingLogin(neap, place.endpoint_id, 'neondb_owner')
  const { key } = await neap.call('POST /api_keys', { body: { key_name: 'guesser', scope: 'write' } })
  const guesser = makeClient({ url: neap.ready.api_url, key })
  const other = await neap.call('POST /projects', { body: { project: {} } })
  const bound = await neap.call('POST /api_keys', {
    body: { key_name: 'bound', scope: 'write', project_id: other.project.id },
  })
  const answerOf = (client: typeof guesser, code: string) =>
    client('POST /passwordless_logins/:code/approve', { params: { code } }).then(() => 'approved', messageOf)
  const elsewhere = makeClient({ url: neap.ready.api_url, key: bound.key })
  assert.equal(await answerOf(elsewhere, login.code), await answerOf(elsewhere, newLoginCode()))
  const answers = await Promise.all(Array.from({ length: 330 }, () => answerOf(guesser, newLoginCode())))
  assert.ok(answers.some((message) => /^Over \d+ requests/.test(message)))
  assert.ok(!answers.includes('approved'))
})

test(
  'strangers fill their own places only: a password still logs in, and so does another endpoint',
  { skip },
  async () => {
    const other = await newProject(neap)
    await allow(other)
    const flood = Array.from({ length: 30 }, () => ask())
    const ended = await Promise.all(flood.slice(0, 30).map(async (asking) => asking.code().catch(() => 'refused')))
    const waiting = ended.filter((code) => code !== 'refused')
    assert.ok(waiting.length <= 5, `${waiting.length} logins of one network wait`)
    const refused = flood.find(({ process: child }) => child.exitCode !== null)
    assert.match(refused?.stderr() ?? '', /Too many logins without a password/)
    await (await connect(neap, place.uri)).end()
    for (const { process: child } of flood) child.kill()
    await Promise.all(flood.map((each) => each.ended))

    // What was not approved counts for ten minutes, at this endpoint alone.
    for (let turn = 0; turn < 10; turn++) {
      const asking = ask()
      const code = await asking.code().catch(() => undefined)
      asking.process.kill()
      await asking.ended
      if (code === undefined) break
      assert.ok(turn < 9, 'a network asks without an end')
    }
    const elsewhere = ask(other.uri)
    await approve(await elsewhere.code())
    assert.equal(await elsewhere.ended, 0)
    const [{ rows } = { rows: 0 }] = await catalogQuery<{ rows: number }>(
      neap,
      `select count(*)::int as rows from audit where action = 'passwordless_login.asked' and address = '127.0.0.1'`,
    )
    assert.ok(rows <= 15, `${rows} audit rows`)
  },
)
