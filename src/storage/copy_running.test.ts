import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fromBase, makeBase } from '../../test/cloning_host.ts'
import { copierOf, fileAppears, freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import { recoveryEnd } from '../postgres/control_file.ts'
import { SEGMENT_BYTES, segmentAt } from '../postgres/wal.ts'
import type { StoreRef } from './storage.ts'

/* Copies of running parents, on a filesystem whose files share no blocks. */

const local = freshHost()
const { storage, computes, next, home } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

async function runningParent(name: string) {
  const parent = local.branch(name)
  await settled(() => storage.create(parent, next()))
  const { address } = await local.start(parent, next())
  await query(address, 'create table item as select generate_series(1, 1000) as id')
  return { parent, address }
}

/** Begins a clone, and freezes its copier once that has some of the files. */
async function frozenClone(name: string, parent: StoreRef) {
  const child = local.branch(name)
  const fence = next()
  mkdirSync(home(child), { mode: 0o711 })
  const clone = storage.clone(child, parent, fence)
  await fileAppears(home(child), 'pgdata.making')
  await fileAppears(join(home(child), 'pgdata.making'), 'base')
  const copier = await copierOf(home(child))
  process.kill(copier, 'SIGSTOP')
  ok(!existsSync(join(home(child), 'pgdata')), 'the copy was over before it could be frozen')
  const done = async () => {
    if ((await clone) === 'pending') await settled(() => storage.clone(child, parent, fence))
  }
  return { child, copier, done }
}

const pgdataOf = (store: StoreRef): string => join(home(store), 'pgdata')
const segmentsOf = (store: StoreRef): string[] =>
  readdirSync(join(pgdataOf(store), 'pg_wal')).filter((name) => /^[0-9A-F]{24}$/.test(name))

async function hasRows(child: StoreRef): Promise<void> {
  const { address } = await local.start(child, next())
  deepEqual(await query(address, 'select count(*)::int, sum(id)::int from item'), [{ count: 1000, sum: 500_500 }])
  await settled(() => computes.stop(child, next()))
}

test('clones of a running parent hold little of its WAL, and together end one segment of it at most', async () => {
  const { parent, address } = await runningParent('crowd')
  // More than a copy takes.
  await query(address, 'create table filler as select repeat(md5(i::text), 30) as t from generate_series(1, 6000) i')
  const [earlier] = await query<{ lsn: string }>(address, 'select pg_current_wal_lsn() as lsn')
  const children = [1, 2, 3, 4, 5, 6].map((number) => local.branch(`crowd-${number}`))
  await Promise.all(children.map((child) => settled(() => storage.clone(child, parent, next()))))
  const [grown] = await query<{ bytes: number }>(
    address,
    `select pg_wal_lsn_diff(pg_current_wal_lsn(), '${earlier?.lsn}')::int as bytes`,
  )
  ok((grown?.bytes ?? Infinity) < SEGMENT_BYTES + 2 ** 20, `the clones made ${grown?.bytes} bytes of WAL`)
  for (const child of children) {
    const segments = segmentsOf(child)
    equal(segments.length, 1, segments.join(' '))
    const bytes = statSync(join(pgdataOf(child), 'pg_wal', segments[0] ?? '')).blocks * 512
    ok(bytes < 5 * 2 ** 20, `segments are copied without their zeros: ${bytes}`)
  }
  deepEqual(await query(address, "select slot_name from pg_replication_slots where slot_name <> 'neap_history'"), [])
  for (const child of children.slice(0, 2)) await hasRows(child)
})

test('the parent keeps the WAL that a copy needs while it lasts, and no longer', async () => {
  const { parent, address } = await runningParent('kept')
  await query(address, "select pg_drop_replication_slot('neap_history')")
  const { child, copier, done } = await frozenClone('kept-child', parent)
  const [first = ''] = segmentsOf(parent).sort()
  const recycle = async () => {
    for (let segment = 1; segment <= 4; segment++)
      await query(address, 'create table if not exists filler (); select pg_switch_wal()')
    for (let checkpoint = 1; checkpoint <= 2; checkpoint++) await query(address, 'checkpoint')
  }
  await recycle()
  ok(segmentsOf(parent).includes(first), `${first} was removed`)
  process.kill(copier, 'SIGCONT')
  await done()
  await hasRows(child)
  await recycle()
  ok(!segmentsOf(parent).includes(first), `${first} is still there`)
})

test('copies of a store that was just restored start, and copies of them', async () => {
  const { parent } = await runningParent('just')
  const made = await makeBase(storage, parent, 1)
  const restored = local.branch('just-restored')
  await settled(() => storage.restore(restored, fromBase(parent, 1, made, new Date().toISOString()), next()))
  await local.start(restored, next())
  const copyOf = async (name: string, store: StoreRef) => {
    const copy = local.branch(name)
    await settled(() => storage.clone(copy, store, next()))
    return copy
  }
  // Its last checkpoint is on a page of WAL that the timeline before began.
  const copy = await copyOf('just-copy', restored)
  const copyOfUnstarted = await copyOf('just-unstarted', copy)
  await hasRows(copy)
  await hasRows(copyOfUnstarted)
})

test('when the copier of one of several clones is killed, it alone begins again', async () => {
  const { parent } = await runningParent('killed')
  const other = await frozenClone('killed-1', parent)
  const killed = await frozenClone('killed-2', parent)
  process.kill(killed.copier, 'SIGKILL')
  process.kill(other.copier, 'SIGCONT')
  for (const { done } of [killed, other]) await done()
  for (const { child } of [killed, other]) await hasRows(child)
})

test('a parent with much WAL since its last checkpoint makes another before it is copied', async () => {
  const { parent, address } = await runningParent('busy')
  await query(address, 'create table filler as select repeat(md5(i::text), 30) as t from generate_series(1, 320000) i')
  const child = local.branch('busy-child')
  await settled(() => storage.clone(child, parent, next()))
  const end = await recoveryEnd(pgdataOf(child))
  ok(end && end.position - end.redo < 2 ** 24, `it has to replay ${end && end.position - end.redo} bytes`)
  await hasRows(child)
})

test('a copy without a part of its WAL does not start', async () => {
  const { parent, address } = await runningParent('short')
  const { child, copier, done } = await frozenClone('short-child', parent)
  // Its end lies in another segment than its beginning.
  await query(address, 'select pg_switch_wal()')
  await query(address, 'insert into item select 1001')
  process.kill(copier, 'SIGCONT')
  await done()
  const end = await recoveryEnd(pgdataOf(child))
  ok(end)
  const last = join(pgdataOf(child), 'pg_wal', segmentAt(end.timeline, end.position))
  const { size } = statSync(last)
  truncateSync(last, 0)
  truncateSync(last, size)
  await rejects(local.start(child, next()), /WAL ends before end of online backup/)
})
