import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { PROTOCOL_3_0, PROTOCOL_3_2 } from '../../src/proxy/wire/startup.ts'
import { observer, until } from './fixture.ts'
import { type Kind, makeScene, type Scene } from './protocol.ts'
import { cancel, query, rawClient } from './protocol_client.ts'
import { withoutVersion } from './versions.ts'

/* Minor versions and options of the protocol are negotiated as in Postgres 18. Version 3.2 has longer cancel keys. */

const VERSIONS = { '3.0': PROTOCOL_3_0, '3.1': PROTOCOL_3_0 + 1, '3.2': PROTOCOL_3_2, '3.9999': PROTOCOL_3_0 + 9_999 }
const OPTIONS = { '_pq_.one': 'x', '_pq_.two': '' }

/** Bytes of process id and key together. */
const [SHORT, LONG] = [8, 36]

for (const compute of [18, 17]) {
  const skip = withoutVersion(compute)
  const named = (name: string): string => `Postgres ${compute}: ${name}`
  let scene: Scene
  let other: Proxy
  before(async () => {
    if (skip !== false) return
    scene = await makeScene(compute)
    other = await scene.fixture.proxy()
  })
  after(() => scene?.fixture.close())

  /** Logs in with a version. Returns the length of the key, the negotiation, and the answer to a query. */
  async function ask(version: number, kind?: Kind, options = {}): Promise<unknown> {
    const way = scene.way(kind)
    const client = await rawClient({ ...way, version, parameters: { ...way.parameters, ...options } })
    const { key, negotiated } = client
    client.send(query('select 1'))
    const answer = await client.answer()
    client.close()
    assert.ok(key.readInt32BE() >= 0, 'a process id')
    return { key: key.length, negotiated: negotiated?.toString('latin1'), answer }
  }

  for (const [name, version] of Object.entries(VERSIONS))
    test(named(`a client that requests ${name} gets the answer of Postgres 18`), { skip }, async () => {
      for (const options of [{}, OPTIONS])
        for (const kind of ['direct', 'pooled'] as const) {
          const answered = await ask(version, kind, options)
          if (compute >= 18) assert.deepEqual(answered, await ask(version, undefined, options), kind)
          else
            assert.equal((answered as { key: number }).key, kind === 'pooled' && version >= PROTOCOL_3_2 ? LONG : SHORT)
        }
    })

  for (const kind of ['direct', 'pooled'] as const)
    test(named(`the cancel key of a 3.2 client works at each proxy, ${kind}`), { skip, timeout: 30_000 }, async () => {
      const client = await rawClient({ ...scene.way(kind), version: PROTOCOL_3_2 })
      assert.equal(client.key.length, kind === 'direct' && compute < 18 ? SHORT : LONG)
      const watcher = await observer(scene.fixture)
      const sleeps = async (): Promise<boolean> => {
        const { rowCount } = await watcher.query("select 1 from pg_stat_activity where wait_event = 'PgSleep'")
        return rowCount === 1
      }
      for (const { port } of [scene.proxy, other]) {
        client.send(query('select 1 from pg_sleep(600)'))
        await until(sleeps)
        await cancel(port, client.key.subarray(0, SHORT - 1))
        await cancel(port, Buffer.concat([client.key, Buffer.alloc(220)]))
        assert.ok(await sleeps(), 'neither a part of the key nor more than it will do')
        await cancel(port, client.key)
        assert.match((await client.answer()).join(), /E 57014/)
      }
      await watcher.end()
      client.close()
    })
}
