import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { connect, type Fixture, makeFixture, observer } from './fixture.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { copyTests } from './protocol_copy.ts'
import { driverTests } from './protocol_drivers.ts'
import { largeTests } from './protocol_large.ts'
import { mixTests } from './protocol_mix.ts'
import { programTests } from './protocol_programs.ts'
import { replicationTests } from './protocol_replication.ts'
import { rawClient, type RawClient, type Way } from './protocol_client.ts'
import { SCRIPTS } from './protocol_scripts.ts'
import { withoutVersion } from './versions.ts'

/* Uses of Postgres by programs, with each version through the proxy, on both kinds of host. */

export type Kind = 'direct' | 'pooled'

/** A compute of one version and a proxy before it. */
export interface Scene {
  readonly version: number
  readonly fixture: Fixture
  readonly proxy: Proxy
  readonly endpoint: string
  /** The name of the endpoint to ask the proxy for. */
  readonly host: (kind: Kind) => string
  /** How a raw client connects; without a kind, directly to Postgres. */
  readonly way: (kind?: Kind, parameters?: Record<string, string>) => Way
}

/** Two sessions for all the clients of a pool, so that they have to share. */
const POOL_SIZE = 2

const TABLES = `
  grant create on schema public to alice;
  alter role alice replication;
  set role alice;
  create table item (id int primary key, name text);
  create table account (id int primary key, balance int not null);
  insert into account select id, 100 from generate_series(1, 20) id;
  create table arrived (line text);`

/** Makes a scene. To be closed by its fixture. */
export async function makeScene(version = 18, poolSize = POOL_SIZE): Promise<Scene> {
  const fixture = await makeFixture(version)
  const pid = await fixture.compute.start('wal_level=logical')
  const superuser = await observer(fixture)
  await superuser.query(TABLES)
  await superuser.end()
  const [proxy, endpoint] = await Promise.all([fixture.proxy({ poolSize }), fixture.endpoint(pid)])
  const host = (kind: Kind): string => (kind === 'pooled' ? `${endpoint}-pooler` : endpoint)
  return {
    version,
    fixture,
    proxy,
    endpoint,
    host,
    way(kind, more = {}) {
      const parameters = { user: 'alice', database: 'postgres', ...more }
      const { compute, verifier } = fixture
      if (kind === undefined) return { to: { path: compute.socketDir }, verifier, parameters }
      const options = [`endpoint=${host(kind)}`, ...(more['options'] === undefined ? [] : [more['options']])].join(' ')
      return { to: { port: proxy.port }, verifier, parameters: { ...parameters, options } }
    },
  }
}

/** Runs a script with a new client, and closes the client. */
export async function play(script: (client: RawClient) => Promise<unknown>, way: Way): Promise<unknown> {
  const client = await rawClient(way)
  try {
    return await script(client)
  } finally {
    client.close()
  }
}

/** All tests of one version. */
export function protocolTests(version: number): void {
  const skip = withoutVersion(version)
  let made: Scene | undefined
  const scene = (): Scene => {
    assert.ok(made, 'there is a scene')
    return made
  }

  before(async () => {
    if (skip === false) made = await makeScene(version)
  })
  after(() => made?.fixture.close())

  for (const kind of ['direct', 'pooled'] as const) {
    const named = (name: string): string => `Postgres ${version}, ${kind}: ${name}`
    const on = (name: string, run: (scene: Scene) => Promise<void>, absent: string | false = false): void =>
      void test(named(name), { skip: skip === false ? absent : skip, timeout: 60_000 }, () => run(scene()))

    for (const [name, script] of Object.entries(SCRIPTS))
      on(`${name}: the answer is that of Postgres`, async (at) => {
        const expected = await play(script, at.way())
        assert.deepEqual(await play(script, at.way(kind)), expected)
      })
    for (const add of [driverTests, copyTests, largeTests, mixTests, programTests, replicationTests])
      add(on, kind, version)
    on('no session is left in a transaction', async ({ fixture, proxy, endpoint, host }) => {
      const client = await connect(proxy.port, host(kind))
      await client.query('select 1')
      await client.end()
      const watcher = await observer(fixture)
      const { rows } = await watcher.query(
        "select query from pg_stat_activity where usename = 'alice' and state like 'idle in%'",
      )
      await watcher.end()
      assert.deepEqual(rows, [], endpoint)
    })
  }
}

/** Adds a test of one version and kind of host. @param absent the reason for skipping it, or false */
export type On = (name: string, run: (scene: Scene) => Promise<void>, absent?: string | false) => void
