import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { createListener } from '../../src/catalog/listener.ts'
import { sql } from '../../src/catalog/sql.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'

let catalogs: Catalogs

before(async () => {
  catalogs = await startCatalogs()
})

after(() => catalogs.close())

test('a listen during a failing reconnect is served by the next connection', () =>
  catalogs.with(async ({ url, catalog }) => {
    const dead = createServer().listen(0, '127.0.0.1')
    await once(dead, 'listening')
    const { port } = dead.address() as AddressInfo
    const attempt = once(dead, 'connection') as Promise<[Socket]>
    const urls = [url, `postgresql://postgres@127.0.0.1:${port}/none`]
    const listener = createListener(
      async () => {
        const client = new pg.Client(urls.shift() ?? url)
        client.on('error', () => {})
        await client.connect()
        return client
      },
      () => {},
    )
    try {
      await listener.listen('news', () => {})
      await catalog.rows(sql`
        select pg_terminate_backend(pid, 10000) from pg_stat_activity
         where datname = current_database() and query like 'listen %'`)
      const [socket] = await attempt
      const received = new Promise((resolve) => {
        const listening = listener.listen('news', (payload) => payload && resolve(payload))
        socket.destroy()
        listening.then(() => catalog.rows(sql`select pg_notify('news', 'it is back')`), resolve)
      })
      assert.equal(await received, 'it is back')
    } finally {
      await listener.close()
      dead.close()
    }
  }))
