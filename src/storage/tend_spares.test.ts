import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query, settled } from '../../test/local_host.ts'
import { freshCloningHost, fromBase, makeBase } from '../../test/cloning_host.ts'
import { startTicks } from '../host/process_start.ts'
import { baseOf } from './base_place.ts'
import { spareOf } from './spare.ts'
import type { StoreRef } from './storage.ts'

const { local, storage, computes, next, home, skip: CANNOT } = freshCloningHost('xfs')

/** A store at rest with one row. */
async function newStore(name: string): Promise<StoreRef> {
  const store = local.branch(name)
  await settled(() => storage.create(store, next()))
  await run(store, 'create table item as select 1 as number')
  return store
}

/** Starts a server for one statement. */
async function run(store: StoreRef, statement: string): Promise<object[]> {
  const { address } = await local.start(store, next())
  const rows = await query(address, statement)
  await settled(() => computes.stop(store, next()))
  return rows
}

const spareOfData = { base: undefined, ofData: true, count: 1 }
const makeSpare = (store: StoreRef) => settled(() => storage.tendSpares(store, spareOfData))
const hasSpare = (directory: string): boolean => existsSync(join(spareOf(directory), 'pgdata'))
const inodeOf = (directory: string): number => statSync(join(directory, 'pgdata/PG_VERSION')).ino

async function cloneOf(parent: StoreRef, name: string): Promise<StoreRef> {
  const child = local.branch(name)
  await settled(() => storage.clone(child, parent, next()))
  return child
}

const NUMBERS = 'select number from item order by 1'

test(
  'a clone takes the spare of a parent at rest, and the next one is a clone of the parent',
  { skip: CANNOT },
  async () => {
    const parent = await newStore('parent')
    await makeSpare(parent)
    const spare = inodeOf(spareOf(home(parent)))
    const [first, second] = [await cloneOf(parent, 'first'), await cloneOf(parent, 'second')]
    equal(inodeOf(home(first)), spare)
    equal(hasSpare(home(parent)), false)
    await run(first, 'insert into item values (2)')
    deepEqual(await run(first, NUMBERS), [{ number: 1 }, { number: 2 }])
    for (const store of [second, parent]) deepEqual(await run(store, NUMBERS), [{ number: 1 }])
  },
)

test('a spare from before the last run of the parent is not taken, and is made anew', { skip: CANNOT }, async () => {
  const parent = await newStore('changed')
  await makeSpare(parent)
  await run(parent, 'insert into item values (2)')
  const child = await cloneOf(parent, 'changed-child')
  ok(hasSpare(home(parent)), 'the spare was taken')
  deepEqual(await run(child, NUMBERS), [{ number: 1 }, { number: 2 }])
  await makeSpare(parent)
  const later = await cloneOf(parent, 'changed-later')
  equal(hasSpare(home(parent)), false)
  deepEqual(await run(later, NUMBERS), [{ number: 1 }, { number: 2 }])
})

test('no spare is made of data that a server writes, and one that is not wanted goes', { skip: CANNOT }, async () => {
  const parent = await newStore('running')
  await makeSpare(parent)
  await local.start(parent, next())
  for (let tries = 0; tries < 3; tries++) equal(await storage.tendSpares(parent, spareOfData), 'pending')
  equal(await storage.tendSpares(parent, { base: undefined, ofData: false, count: 0 }), 'done')
  equal(existsSync(spareOf(home(parent))), false)
  await settled(() => computes.stop(parent, next()))
})

const spareOfBase = (store: StoreRef, base: number) =>
  settled(() => storage.tendSpares(store, { base, ofData: false, count: 1 }))

test('of a store with several spares each clone takes one, and those too many go', { skip: CANNOT }, async () => {
  const parent = await newStore('several')
  const wanted = { base: undefined, ofData: true, count: 3 }
  await settled(() => storage.tendSpares(parent, wanted))
  const spares = [1, 2, 3].map((number) => inodeOf(spareOf(home(parent), number)))
  const clones = await Promise.all([1, 2, 3].map((number) => cloneOf(parent, `several-${number}`)))
  deepEqual(new Set(clones.map((clone) => inodeOf(home(clone)))), new Set(spares))
  for (const clone of clones) deepEqual(await run(clone, NUMBERS), [{ number: 1 }])
  await settled(() => storage.tendSpares(parent, wanted))
  await makeSpare(parent)
  ok(hasSpare(home(parent)))
  for (const number of [2, 3]) equal(existsSync(spareOf(home(parent), number)), false)
})

test('a control file that is a pipe keeps no spare of others waiting', { skip: CANNOT }, async () => {
  const parent = await newStore('piped')
  await makeSpare(parent)
  const control = join(home(parent), 'pgdata/global/pg_control')
  rmSync(control)
  execFileSync('mkfifo', [control])
  await rejects(storage.tendSpares(parent, spareOfData), /pg_control/)
})

test('a spare waits for a clone that is being made', { skip: CANNOT }, async () => {
  const parent = await newStore('cloned')
  const copies = join(home(parent), 'copies')
  mkdirSync(copies, { recursive: true })
  const note = (text: string) => writeFileSync(join(copies, 'br-other'), text)
  note(`${process.pid} ${startTicks(process.pid)}\n`)
  equal(await storage.tendSpares(parent, spareOfData), 'pending')
  // It was killed.
  note(`${process.pid} 1\n`)
  await makeSpare(parent)
  ok(hasSpare(home(parent)))
})

test('a clone of a running parent with many extents begins with its base', { skip: CANNOT }, async () => {
  const parent = await newStore('aged')
  const { address } = await local.start(parent, next())
  await query(address, 'create table wide (n int, text text); alter table wide alter text set storage plain')
  await query(address, `insert into wide select n, repeat('x', 3000) from generate_series(1, 16000) n`)
  await query(address, 'vacuum (freeze) wide')
  await query(address, 'checkpoint')
  const base = baseOf(home(parent), 1)
  await makeBase(storage, parent, 1)
  await spareOfBase(parent, 1)
  const spare = inodeOf(spareOf(base))
  // Its extents are few.
  const early = await cloneOf(parent, 'aged-early')
  ok(hasSpare(base))
  // Every other page, which then lies apart from that of the base.
  await query(address, 'delete from wide where n % 4 = 0; delete from item')
  await query(address, 'checkpoint')
  // A later base is one of the files, from which a restore replays little.
  await makeBase(storage, parent, 2)
  ok(hasSpare(base))
  const [late, later] = [await cloneOf(parent, 'aged-late'), await cloneOf(parent, 'aged-later')]
  equal(hasSpare(base), false)
  equal(inodeOf(home(late)), spare)
  const counts = 'select (select count(*) from wide)::int as wide, (select count(*) from item)::int as item'
  deepEqual(await run(early, counts), [{ wide: 16_000, item: 1 }])
  for (const store of [late, later]) deepEqual(await run(store, counts), [{ wide: 12_000, item: 0 }])
  await settled(() => computes.stop(parent, next()))
})

test('a restore takes the spare of its base', { skip: CANNOT }, async () => {
  const store = await newStore('based')
  const { address } = await local.start(store, next())
  const made = await makeBase(storage, store, 1)
  await query(address, 'insert into item values (2)')
  const moment = new Date().toISOString()
  await query(address, 'insert into item values (3)')
  await spareOfBase(store, 1)
  const base = baseOf(home(store), 1)
  ok(hasSpare(base))
  const restoration = fromBase(store, 1, made, moment)
  for (const name of ['restored', 'restored-again']) {
    const child = local.branch(name)
    await settled(() => storage.restore(child, restoration, next()))
    equal(hasSpare(base), false)
    deepEqual(await run(child, NUMBERS), [{ number: 1 }, { number: 2 }])
  }
  await storage.removeHistory(store.id, { base: 'all', from: undefined, before: undefined })
  await settled(() => computes.stop(store, next()))
})
