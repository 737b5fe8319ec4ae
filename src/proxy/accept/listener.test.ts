import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { freePort } from '../../../test/free_port.ts'
import { connect, type Fixture, makeFixture } from '../../../test/proxy/fixture.ts'
import { loadConfig } from '../../config.ts'
import { proxyPlaces } from '../../public_address.ts'
import { bindProxy } from '../../supervisor/listener.ts'

let fixture: Fixture

before(async () => {
  fixture = await makeFixture()
})
after(() => fixture.close())

test('a proxy starts though another listens first on the extra port that both have bound', async (t) => {
  const [proxyPort, extraProxyPort] = [await freePort(), await freePort()]
  const config = { ...loadConfig({ dataDir: fixture.servers.dir }, {}), proxyPort, extraProxyPort }
  const { all } = bindProxy(config)
  const other = createServer().listen(extraProxyPort, '127.0.0.1')
  await once(other, 'listening')
  t.after(() => other.close())
  const shared = { among: 1, socket: async (index: number) => all[index]?.handle ?? {} }
  const proxy = await fixture.proxy({ places: proxyPlaces(config), shared })
  assert.equal(proxy.port, proxyPort)
  const endpoint = await fixture.endpoint(await fixture.compute.start())
  await (await connect(proxyPort, endpoint)).end()
})

test('a port of its own that is taken is an error', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as { port: number }
  await assert.rejects(fixture.proxy({ places: [{ host: '127.0.0.1', port }] }), { code: 'EADDRINUSE' })
  taken.close()
})
