import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { copierOf, fileAppears, freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import { segmentPosition } from '../postgres/wal.ts'
import { baseOf } from './base_place.ts'
import { notedRecovery, noteRecovery } from './replay.ts'
import type { Restoration } from './storage.ts'

const local = freshHost()
const { storage, computes, next, home } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

/** A store with a base, and how its present is restored from that. */
async function newBase(name: string) {
  const store = local.branch(name)
  await settled(() => storage.create(store, next()))
  const { address } = await local.start(store, next())
  await query(address, 'create table item as select 1 as number')
  const base = await until(() => storage.makeBase(store, { number: 1, now: new Date().toISOString() }))
  await query(address, 'insert into item values (2)')
  const restoration: Restoration = {
    target: { timestamp: new Date().toISOString() },
    base: { storeId: store.id, number: 1 },
    stores: [{ id: store.id, first: base.segment }],
    from: segmentPosition(base.segment),
    upto: undefined,
  }
  return { store, restoration }
}

async function until<T>(call: () => Promise<T | 'pending'>): Promise<T> {
  for (;;) {
    const answer = await call()
    if (answer !== 'pending') return answer
  }
}

test('a store, and a clone of it, are restored from a base and the WAL since, which may not be archived', async () => {
  const { restoration } = await newBase('origin')
  const child = local.branch('restored')
  await settled(() => storage.restore(child, restoration, next()))
  // Made before the first start of its parent recovers that, which was fetched from a repository.
  rmSync(join(home(child), 'password_of'))
  const clone = local.branch('restored-clone')
  await settled(() => storage.clone(clone, child, next()))
  for (const store of [clone, child]) {
    const { address } = await local.start(store, next())
    deepEqual(await query(address, 'select number from item order by 1'), [{ number: 1 }, { number: 2 }])
    await settled(() => computes.stop(store, next()))
  }
})

test('a recovery that was killed before its end is ended by the next start', async () => {
  const { restoration } = await newBase('killed')
  const child = local.branch('ended')
  await settled(() => storage.restore(child, restoration, next()))
  const recovery = notedRecovery(home(child))
  ok(recovery)
  await local.start(child, next())
  // The last thing that the start did was to remove this note.
  await noteRecovery(home(child), recovery)
  const { address } = await local.start(child, next())
  deepEqual(await query(address, 'select count(*)::int from item'), [{ count: 2 }])
  equal(notedRecovery(home(child)), undefined)
})

test('a copy of a base that is removed meanwhile fails', async () => {
  const { store, restoration } = await newBase('short')
  const child = local.branch('late')
  const fence = next()
  mkdirSync(home(child), { mode: 0o711 })
  const begun = storage.restore(child, restoration, fence)
  await fileAppears(home(child), 'pgdata.making')
  const copier = await copierOf(home(child))
  process.kill(copier, 'SIGSTOP')
  equal(await begun, 'pending')
  await storage.removeHistory(store.id, { base: 1, from: undefined, before: undefined })
  equal(existsSync(baseOf(home(store), 1)), false)
  process.kill(copier, 'SIGCONT')
  await rejects(
    settled(() => storage.restore(child, restoration, fence)),
    /was removed/,
  )
  equal(existsSync(join(home(child), 'pgdata')), false)
})
