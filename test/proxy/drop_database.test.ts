import assert from 'node:assert/strict'
import { after, before, test as nodeTest } from 'node:test'
import type pg from 'pg'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { connect, observer } from './fixture.ts'
import { type Kind, makeScene, type Scene } from './protocol.ts'

/*
 * Commands that need a database to themselves, such as a test suite sends at its end. Idle pooled sessions of the
 * database at both of two proxies, of clients that have left and of idle clients, do not block them.
 */

const test = (name: string, body: () => Promise<void>): void => void nodeTest(name, { timeout: 60_000 }, body)

let scene: Scene
let other: Proxy
before(async () => {
  scene = await makeScene()
  other = await scene.fixture.proxy({ poolSize: 2 })
  const superuser = await observer(scene.fixture)
  await superuser.query('alter role alice createdb')
  await superuser.end()
})
after(() => scene.fixture.close())

const client = (proxy: Proxy, kind: Kind, database = 'postgres'): Promise<pg.Client> =>
  connect(proxy.port, scene.host(kind), { database })

/** Leaves pooled sessions of a database at both proxies. Returns the clients that are still connected. */
async function leaveSessions(database: string): Promise<pg.Client[]> {
  const clients = await Promise.all(
    [scene.proxy, other, scene.proxy, other].map((at) => client(at, 'pooled', database)),
  )
  await Promise.all(clients.map((one) => one.query("set application_name = 'left'")))
  await Promise.all(clients.slice(2).map((one) => one.end()))
  return clients.slice(0, 2)
}

const COMMANDS: Readonly<Record<string, (name: string) => string | pg.QueryConfig>> = {
  'DROP DATABASE': (name) => `drop database ${name}`,
  'DROP DATABASE behind a comment': (name) => `/* the end */ DROP  DATABASE IF EXISTS ${name}`,
  'DROP DATABASE in the extended protocol': (name) => ({ name: 'drop', text: `drop database ${name}` }),
  'ALTER DATABASE … RENAME': (name) => `alter database ${name} rename to ${name}_renamed`,
  'CREATE DATABASE … TEMPLATE': (name) => `create database ${name}_copy template ${name}`,
}

let count = 0
for (const kind of ['direct', 'pooled'] as const)
  for (const [name, command] of Object.entries(COMMANDS))
    test(`${name} succeeds despite idle pooled sessions, on a ${kind} connection`, async () => {
      const database = `left${++count}`
      const admin = await client(scene.proxy, kind)
      await admin.query(`create database ${database}`)
      const idle = await leaveSessions(database)
      await admin.query(command(database))
      await Promise.all([admin, ...idle].map((one) => one.end()))
    })

test('a session in use blocks DROP DATABASE, as with Postgres', async () => {
  const admin = await client(scene.proxy, 'direct')
  await admin.query('create database used')
  const user = await client(other, 'pooled', 'used')
  await user.query('begin')
  await assert.rejects(admin.query('drop database used'), { code: '55006' })
  await user.query('rollback')
  await admin.query('drop database used')
  await Promise.all([admin.end(), user.end()])
})
