import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { existsSync, readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import { isPacked, PACKED_BYTES, PACKED_FILE } from './pack.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

async function atRest(name: string) {
  const branch = local.branch(name)
  await settled(() => storage.create(branch, next()))
  const { address } = await local.start(branch, next())
  await query(address, 'create table kept as select i, md5(i::text) from generate_series(1, 1000) i')
  await settled(() => computes.stop(branch, next()))
  return { branch, home: local.home(branch) }
}

/** Packs a store, with a file of so many bytes, which has no blocks. */
async function packed(name: string, holes = 0) {
  const { branch, home } = await atRest(name)
  if (holes > 0) makeHoles(home, holes)
  const fence = next()
  await settled(() => storage.pack(branch, fence))
  return { branch, home }
}

const holesIn = (home: string) => join(home, 'pgdata/holes')

function makeHoles(home: string, bytes: number): void {
  writeFileSync(holesIn(home), '')
  truncateSync(holesIn(home), bytes)
}

const HASH = 'select md5(string_agg(kept::text, $$$$ order by i)) as hash from kept'

test('a packed store is one file, and its rows are there again when it is unpacked', async () => {
  const { branch, home } = await packed('packed')
  ok(isPacked(home))
  equal(await storage.pack(branch, next()), 'done')
  deepEqual(
    readdirSync(home).filter((name) => /pgdata|data|pack|copier/.test(name)),
    [PACKED_BYTES, PACKED_FILE],
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

test('what takes no room in a store takes none when it is unpacked', async () => {
  const { branch, home } = await packed('holes', 2 ** 27)
  const fence = next()
  await settled(() => storage.unpack(branch, fence))
  const { size, blocks } = statSync(holesIn(home))
  deepEqual({ size, blocks }, { size: 2 ** 27, blocks: 0 })
})

test('a store with far more bytes than blocks is not packed, and stays as it is', async () => {
  const { branch, home } = await atRest('sparse')
  makeHoles(home, 2 ** 40)
  const fence = next()
  await rejects(
    settled(() => storage.pack(branch, fence)),
    { name: 'ConfigurationError', message: /far more bytes than blocks/ },
  )
  ok(!existsSync(join(home, PACKED_FILE)))
  await local.start(branch, next())
})

test('a store is unpacked only where the disk has the room', async () => {
  const { branch, home } = await packed('large')
  writeFileSync(join(home, PACKED_BYTES), String(2 ** 50))
  const fence = next()
  await rejects(
    settled(() => storage.unpack(branch, fence)),
    /no space left on device: bringing the branch back needs/,
  )
  ok(isPacked(home))
  writeFileSync(join(home, PACKED_BYTES), '1')
  const again = next()
  await settled(() => storage.unpack(branch, again))
})
