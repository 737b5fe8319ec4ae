import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { openCatalog } from '../../src/catalog/catalog.ts'
import { setLastActive } from '../../src/catalog/endpoint.ts'
import { sql } from '../../src/catalog/sql.ts'
import { newEndpointId } from '../../src/ids.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newBranch, newProject } from './operations.ts'

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

test('a slow statement does not count as a catalog failure', () =>
  catalogs.with(async ({ catalog }) => {
    const row = await catalog.row<{ answer: string }>(sql`select 'late' as answer from pg_sleep(6)`)
    assert.equal(row?.answer, 'late')
  }))

test('a silent catalog fails queries, transactions, listens and sessions with UNAVAILABLE', async () => {
  const sockets: Socket[] = []
  const silent = createServer((socket) => sockets.push(socket.on('error', () => {}))).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const catalog = openCatalog(`postgresql://neap@127.0.0.1:${port}/neap`, 2, () => {})
  try {
    const asks = [
      ...Array.from({ length: 5 }, () => catalog.rows(sql`select 1`)),
      catalog.transaction((tx) => tx.rows(sql`select 1`)),
      catalog.listen('news', () => {}),
      catalog.session(),
    ]
    for (const { status, ...rest } of await Promise.allSettled(asks)) {
      assert.equal(status, 'rejected')
      assert.equal((rest as { reason: { code: string } }).reason.code, 'UNAVAILABLE')
    }
  } finally {
    await catalog.close()
    for (const socket of sockets) socket.destroy()
    silent.close()
  }
})

test('last_active is recorded for all endpoints except locked ones, which are returned', () =>
  catalogs.with(async ({ catalog }) => {
    const project = await newProject(catalog)
    const ids: string[] = []
    for (let number = 0; number < 3; number++) {
      const branch = await newBranch(catalog, project)
      const id = newEndpointId()
      await catalog.rows(sql`
        insert into endpoint (id, account_id, project_id, branch_id, min_cu, max_cu) values
          (${id}, ${project.account_id}, ${project.id}, ${branch.id}, 1, 1)`)
      ids.push(id)
    }
    const [first, second, third] = ids as [string, string, string]
    const now = Date.now()
    const seen = new Map([...ids, 'ep-of-nobody'].map((id) => [id, now]))
    await catalog.transaction(async (tx) => {
      await tx.rows(sql`update endpoint set updated_at = clock_timestamp() where id = ${second}`)
      assert.deepEqual(await setLastActive(catalog, seen), [second])
    })
    const rows = await catalog.rows<{ id: string }>(sql`select id from endpoint where last_active is not null`)
    assert.deepEqual(rows.map(({ id }) => id).sort(), [first, third].sort())
    assert.deepEqual(await setLastActive(catalog, seen), [])
  }))
