import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { ADMIN, ownSession } from '../../src/postgres/own_session.ts'
import { query } from '../clients.ts'
import { superuser } from '../admin.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, computeOf, firstPlace, type Place } from '../project.ts'

/*
 * The credentials of Neap's own roles, attacked by a tenant with SQL and by a fake server. Before each store had
 * separate passwords, every compute and the catalog had one verifier with one iteration, and a server that requested a
 * cleartext password received it.
 */

let neap: Neap
let place: Place
let other: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  other = await branchOff(neap, place)
})
after(() => neap?.stop())

interface Verifier {
  readonly rolname: string
  readonly rolpassword: string
}

const verifiersAt = (at: Place): Promise<Verifier[]> =>
  query(
    neap,
    at.uri,
    `select rolname, rolpassword from pg_authid where rolname like 'neap\\_%' and rolcanlogin order by 1`,
  )

test('no part of a verifier is shared between stores', async () => {
  const [here, there] = [await verifiersAt(place), await verifiersAt(other)]
  assert.deepEqual(
    here.map(({ rolname }) => rolname),
    ['neap_admin', 'neap_login_reader'],
  )
  const parts = [...here, ...there].map(({ rolpassword }) => {
    const [, iterations, salt, stored, server] = /^SCRAM-SHA-256\$(\d+):(.*)\$(.*):(.*)$/.exec(rolpassword) ?? []
    assert.equal(iterations, '4096')
    return [salt, stored, server]
  })
  assert.equal(new Set(parts.flat()).size, parts.length * 3)
})

test('the password of one store is refused at another', async () => {
  const session = await superuser(neap, place)
  const { password } = session
  await session.end()
  const { socket_dir = '', port = 0 } = (await computeOf(neap, other)) ?? {}
  const client = new pg.Client({ host: socket_dir, port, user: ADMIN, password: password ?? '', database: 'neap' })
  await assert.rejects(client.connect(), { code: '28P01' })
})

const message = (type: string, body: Buffer): Buffer => {
  const head = Buffer.from(`${type}....`)
  head.writeInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
}
const authentication = (kind: number, data = ''): Buffer => {
  const head = Buffer.alloc(4)
  head.writeInt32BE(kind)
  return message('R', Buffer.concat([head, Buffer.from(data)]))
}

/** A server that answers the first message of a login and records all later messages. */
async function fakeServer(answers: readonly Buffer[]) {
  const dir = mkdtempSync('/tmp/neap-false-')
  const heard: Buffer[] = []
  const server = createServer((socket: Socket) => {
    let turn = 0
    socket.on('error', () => {})
    socket.on('data', (bytes: Buffer) => {
      if (turn > 0) heard.push(bytes)
      const answer = answers[turn++]
      if (answer) socket.write(answer)
    })
  }).listen(join(dir, '.s.PGSQL.5432'))
  await once(server, 'listening')
  return {
    dir,
    heard: () => Buffer.concat(heard).toString('latin1'),
    close() {
      server.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

const ready = Buffer.concat([authentication(0), message('Z', Buffer.from('I'))])
const sasl = authentication(10, 'SCRAM-SHA-256\0\0')
const FAKE_SERVERS: Record<string, Buffer[]> = {
  'requests a cleartext password': [authentication(3), ready],
  'requests an MD5 hash': [authentication(5, 'salt'), ready],
  'requests no authentication': [ready],
  'requests two billion iterations': [sasl, authentication(11, 'r=,s=c2FsdA==,i=2000000000')],
}

for (const [what, answers] of Object.entries(FAKE_SERVERS))
  test(`a fake server that ${what} gets no password, no derived key and no query`, async (t) => {
    const server = await fakeServer(answers)
    t.after(() => server.close())
    const secret = 'the-password-of-a-store'
    const session = ownSession({ host: server.dir, port: 5432, user: ADMIN, passwords: [secret], name: 'test' })
    await assert.rejects(session, /it is not the compute/)
    assert.ok(!server.heard().includes(secret))
    assert.ok(!server.heard().includes('md5'))
    assert.ok(!server.heard().includes('select'))
  })
