import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import { isPacked, PACKED_FILE } from './pack.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

async function packed(name: string) {
  const branch = local.branch(name)
  await settled(() => storage.create(branch, next()))
  const { address } = await local.start(branch, next())
  await query(address, 'create table kept as select i, md5(i::text) from generate_series(1, 1000) i')
  await settled(() => computes.stop(branch, next()))
  const fence = next()
  await settled(() => storage.pack(branch, fence))
  return { branch, home: local.home(branch) }
}

const HASH = 'select md5(string_agg(kept::text, $$$$ order by i)) as hash from kept'

test('a packed store is one file, and its rows are there again when it is unpacked', async () => {
  const { branch, home } = await packed('packed')
  ok(isPacked(home))
  equal(await storage.pack(branch, next()), 'done')
  deepEqual(
    readdirSync(home).filter((name) => /pgdata|tar|pack|copier/.test(name)),
    [PACKED_FILE],
  )
  await rejects(local.start(branch, next()), /is not in the data directory/)

  const fence = next()
  await settled(() => storage.unpack(branch, fence))
  equal(await storage.unpack(branch, fence), 'done')
  ok(!existsSync(join(home, PACKED_FILE)))
  const { address } = await local.start(branch, next())
  const [row] = await query<{ hash: string }>(address, HASH)
  ok(row?.hash)
})

test('a damaged packed file is told, and is not removed', async () => {
  const { branch, home } = await packed('damaged')
  writeFileSync(join(home, PACKED_FILE), 'not compressed')
  const fence = next()
  await rejects(
    settled(() => storage.unpack(branch, fence)),
    /./,
  )
  ok(isPacked(home))
})
