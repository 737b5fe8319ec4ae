import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as tcp, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { connect as tls, type TLSSocket } from 'node:tls'
import {
  byOptions,
  connect,
  type Fixture,
  makeFixture,
  NO_PSQL,
  observer,
  PASSWORD,
  psql,
} from '../../../test/proxy/fixture.ts'
import { sql } from '../../catalog/sql.ts'
import type { Proxy } from '../proxy.ts'
import { PASSWORD_MESSAGE } from '../wire/message_types.ts'
import { encodeMessage, int32, type Message, messageAt } from '../wire/messages.ts'
import { SCRAM } from '../wire/scram.ts'
import { encodeStartup, PROTOCOL_3_0, PROTOCOL_3_2 } from '../wire/startup.ts'

/* Clients authenticate at the proxy, which logs in at the compute with their keys. */

let fixture: Fixture
let proxy: Proxy
let active: string

before(async () => {
  fixture = await makeFixture()
  proxy = await fixture.proxy()
  active = await fixture.endpoint(await fixture.compute.start())
})
after(() => fixture.close())

test('channel binding by psql, and by the driver', { skip: NO_PSQL }, async () => {
  assert.equal((await psql(byOptions(proxy.port, active, 'channel_binding=require'), 'select 1')).stdout, '1')
  const client = await connect(proxy.port, active, { enableChannelBinding: true })
  assert.deepEqual((await client.query('select current_user')).rows, [{ current_user: 'alice' }])
  await client.end()
})

test('a client that says nothing of the endpoint says it with its password', { skip: NO_PSQL }, async () => {
  const silent = byOptions(proxy.port, active).replace(/options=\S*/, 'sslsni=0')
  for (const given of [`endpoint=${active};${PASSWORD}`, `project=${active}$${PASSWORD}`])
    assert.equal((await psql(silent, 'select current_user', { PGPASSWORD: given })).stdout, 'alice')
  const wrong = await psql(silent, 'select 1', { PGPASSWORD: `endpoint=${active};wrong` })
  assert.match(wrong.stderr, /password authentication failed for user "alice"/)
  const lost = await psql(silent, 'select 1', { PGPASSWORD: PASSWORD })
  assert.match(lost.stderr, /Endpoint ID is not specified/)
})

test('nothing is woken for a wrong password, a role or an endpoint that there is not', { skip: NO_PSQL }, async () => {
  const asleep = await fixture.endpoint()
  const { asked } = fixture.starts
  const says = (user: string) => new RegExp(`FATAL: {2}password authentication failed for user "${user}"$`)
  const wrong = (connection: string) => psql(connection, 'select 1', { PGPASSWORD: 'wrong' })
  assert.match((await wrong(byOptions(proxy.port, asleep))).stderr, says('alice'))
  assert.match((await wrong(byOptions(proxy.port, asleep, 'user=bob'))).stderr, says('bob'))
  assert.match((await wrong(byOptions(proxy.port, 'ep-no-such-00000000'))).stderr, says('alice'))
  assert.equal(fixture.starts.asked, asked)
})

test('a sleeping endpoint whose roles are not known for sure is woken to be asked', { skip: NO_PSQL }, async () => {
  const asleep = await fixture.endpoint()
  await fixture.catalog.rows(sql`update branch set noted = false where id = ${asleep}`)
  await fixture.catalog.rows(sql`update role set verifier = null where branch_id = ${asleep}`)
  const { made } = fixture.starts
  assert.equal((await psql(byOptions(proxy.port, asleep), 'select current_user')).stdout, 'alice')
  assert.equal(fixture.starts.made, made + 1)
})

test(
  'roles that SQL makes and changes are known at once; an md5 hash is refused with a hint',
  { skip: NO_PSQL },
  async () => {
    const admin = await observer(fixture)
    const endpoint = await fixture.endpoint(1)
    await admin.query(`create role carol login password 'first'`)
    const as = (password: string) =>
      psql(byOptions(proxy.port, endpoint, 'user=carol'), 'select 1', { PGPASSWORD: password })
    assert.equal((await as('first')).stdout, '1')
    await admin.query(`alter role carol password 'second'`)
    assert.equal((await as('second')).stdout, '1')
    assert.match((await as('first')).stderr, /password authentication failed for user "carol"/)
    await admin.query(`set password_encryption = md5; alter role carol password 'third'`)
    assert.match(
      (await as('third')).stderr,
      /password authentication failed[^]*HINT: {2}The password of this role is stored as an md5 hash/,
    )
    await admin.query('drop role carol')
    await admin.end()
  },
)

test(
  'a client from an address that is not allowed learns so, with the right password only',
  { skip: NO_PSQL },
  async () => {
    const endpoint = await fixture.endpoint(1)
    const allow = (allowed_ips: object) =>
      fixture.catalog.rows(sql`update project set settings = ${JSON.stringify({ allowed_ips })} where id = ${endpoint}`)
    const says = async (password = PASSWORD) =>
      (await psql(byOptions(proxy.port, endpoint), 'select 1', { PGPASSWORD: password })).stderr
    await allow({ ips: ['10.0.0.0/8'] })
    assert.match(await says(), /This IP address 127\.0\.0\.1 is not allowed to connect to this endpoint/)
    assert.match(await says('wrong'), /password authentication failed/)
    await allow({ ips: ['10.0.0.0/8'], protected_branches_only: true })
    assert.equal(await says(), '')
    await fixture.catalog.rows(sql`update branch set protected = true where id = ${endpoint}`)
    assert.match(await says(), /is not allowed/)
    await allow({ ips: ['10.0.0.0/8', '127.0.0.0-127.0.0.9'], protected_branches_only: true })
    assert.equal(await says(), '')
  },
)

test('the salts of roles that there are not stay the same, and differ from each other', async () => {
  const another = await fixture.proxy()
  const saltOf = async (user: string, port = proxy.port) => {
    const [, continued] = await converse([startup({ user }), initial(SCRAM, 'n,,n=,r=abc')], port)
    return /,s=([^,]+),/.exec(continued?.body.toString() ?? '')?.[1]
  }
  const bob = await saltOf('bob')
  assert.equal(Buffer.from(bob ?? '', 'base64').length, 16)
  assert.equal(await saltOf('bob'), bob)
  assert.equal(await saltOf('bob', another.port), bob)
  await another.stop()
  assert.notEqual(await saltOf('ann'), bob)
})

test('a newer protocol and options of it are negotiated down before anything else', async () => {
  const [first, second] = await converse([startup({ user: 'alice', '_pq_.some': 'x' }, PROTOCOL_3_2 + 1)])
  assert.deepEqual(first, {
    type: 0x76,
    body: Buffer.concat([int32(PROTOCOL_3_2), int32(1), Buffer.from('_pq_.some\0')]),
  })
  assert.equal(second?.type, 0x52)
})

test('what is no login ends with an error, whatever it is', async () => {
  const endings: Buffer[] = [
    Buffer.from('Q\0\0\0\x0dselect 1\0'),
    initial('PLAIN', 'n,,n=,r=abc'),
    initial('SCRAM-SHA-256-PLUS', 'n,,n=,r=abc'),
    initial(SCRAM, 'p=tls-server-end-point,,n=,r=abc'),
    initial(SCRAM, 'y,,n=,r=abc'),
    initial(SCRAM, 'n,,n=,r=,'),
    encodeMessage(PASSWORD_MESSAGE, Buffer.from('no zero')),
    encodeMessage(PASSWORD_MESSAGE, Buffer.alloc(5_000, 'a')),
    Buffer.concat([initial(SCRAM, 'n,,n=,r=abc'), encodeMessage(PASSWORD_MESSAGE, Buffer.from('c=biws,r=abc,p=AAAA'))]),
  ]
  for (const ending of endings) {
    const last = (await converse([startup({ user: 'alice' }), ending])).at(-1)
    assert.equal(last?.type, 0x45, ending.toString('latin1'))
    assert.match(last.body.toString(), /C08P01/)
  }
})

const startup = (parameters: Record<string, string>, version = PROTOCOL_3_0): Buffer =>
  encodeStartup({ version, parameters: new Map(Object.entries({ ...parameters, options: `endpoint=${active}` })) })

const initial = (mechanism: string, first: string): Buffer =>
  encodeMessage(PASSWORD_MESSAGE, Buffer.from(`${mechanism}\0`), int32(first.length), Buffer.from(first))

/** Sends the packets, ends the connection, and returns the messages received. */
async function converse(packets: readonly Buffer[], port = proxy.port): Promise<Message[]> {
  const socket = await secure(port)
  let bytes = Buffer.alloc(0)
  const messages: Message[] = []
  socket.on('data', (chunk: Buffer) => (bytes = Buffer.concat([bytes, chunk])))
  socket.end(Buffer.concat(packets))
  await once(socket, 'close')
  for (let at = 0; ;) {
    const message = messageAt(bytes, at, 10_000)
    if (typeof message !== 'object') return messages
    messages.push(message)
    at += 5 + message.body.length
  }
}

async function secure(port: number): Promise<TLSSocket> {
  const plain: Socket = tcp(port, '127.0.0.1')
  plain.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
  await once(plain, 'data')
  const socket = tls({ socket: plain, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  return socket
}
