import { deepEqual, equal, notEqual, ok, rejects } from 'node:assert/strict'
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { copierOf, processesIn, query, settled, SMALL } from '../../test/local_host.ts'
import { kill, until } from '../../test/processes.ts'
import { freshCloningHost, fromBase, makeBase } from '../../test/cloning_host.ts'
import { recoveryEnd } from '../postgres/control_file.ts'
import { segmentAt } from '../postgres/wal.ts'
import type { StoreRef } from './storage.ts'

/* Clones of running parents on a filesystem that shares blocks. */

const COUNT = 'select count(*)::int, sum(id)::int from item'
const WHOLE = [{ count: 1000, sum: 500_500 }]
/** Of the top directory of a subvolume. */
const SUBVOLUME_INODE = 256

for (const kind of ['xfs', 'btrfs'] as const) describe(kind, () => testClones(kind))

function testClones(kind: 'xfs' | 'btrfs'): void {
  const { local, storage, computes, next, home, skip: CANNOT } = freshCloningHost(kind)

  async function runningParent(name: string) {
    const parent = local.branch(name)
    await settled(() => storage.create(parent, next()))
    const { address } = await local.start(parent, next())
    await query(address, 'create table item as select generate_series(1, 1000) as id')
    return { parent, address }
  }

  async function cloneOf(parent: StoreRef, name: string): Promise<StoreRef> {
    const child = local.branch(name)
    await settled(() => storage.clone(child, parent, next()))
    return child
  }

  const pgdataOf = (store: StoreRef): string => join(home(store), 'pgdata')

  test('a clone of a running parent makes no checkpoint and ends no segment there', { skip: CANNOT }, async () => {
    const { parent, address } = await runningParent('calm')
    const look = 'select pg_current_wal_lsn() as lsn, redo_lsn as redo from pg_control_checkpoint()'
    const [earlier] = await query<{ lsn: string; redo: string }>(address, look)
    const children = await Promise.all([1, 2, 3].map((number) => cloneOf(parent, `calm-${number}`)))
    const [later] = await query<{ lsn: string; redo: string }>(address, look)
    equal(later?.redo, earlier?.redo)
    const grown = await query<{ bytes: number }>(
      address,
      `select pg_wal_lsn_diff('${later?.lsn}', '${earlier?.lsn}')::int as bytes`,
    )
    ok((grown[0]?.bytes ?? Infinity) < 2 ** 20, `the clones made ${grown[0]?.bytes} bytes of WAL`)
    for (const child of children) deepEqual(await query((await local.start(child, next())).address, COUNT), WHOLE)
  })

  test(
    'a parent that has written much since its last checkpoint makes another one first',
    { skip: CANNOT },
    async () => {
      const { parent, address } = await runningParent('busy')
      const redo = async () =>
        (await query<{ redo: string }>(address, 'select redo_lsn as redo from pg_control_checkpoint()'))[0]?.redo
      const earlier = await redo()
      for (let segments = 0; segments < 18; segments++) {
        await query(address, 'create table if not exists written (id int); insert into written values (1)')
        await query(address, 'select pg_switch_wal()')
      }
      equal(await redo(), earlier)
      const child = await cloneOf(parent, 'busy-child')
      notEqual(await redo(), earlier)
      ok((await storage.replayBytes(child)) < 2 ** 24)
      deepEqual(await query((await local.start(child, next())).address, 'select count(*)::int from written'), [
        { count: 18 },
      ])
    },
  )

  test('a clone without a part of its WAL does not start', { skip: CANNOT }, async () => {
    const { parent, address } = await runningParent('short')
    // Its end lies in another segment than its beginning.
    await query(address, 'select pg_switch_wal()')
    await query(address, 'insert into item select 1001')
    const child = await cloneOf(parent, 'short-child')
    const end = await recoveryEnd(pgdataOf(child))
    ok(end)
    const last = join(pgdataOf(child), 'pg_wal', segmentAt(end.timeline, end.position))
    const { size } = statSync(last)
    truncateSync(last, 0)
    truncateSync(last, size)
    await rejects(local.start(child, next()), /WAL ends before end of online backup/)
  })

  test('a clone whose first recovery was killed recovers at its next start', { skip: CANNOT }, async () => {
    const { parent, address } = await runningParent('long')
    await query(
      address,
      `create table filler as select repeat(md5(i::text), 30) as t from generate_series(1, 200000) i`,
    )
    const child = await cloneOf(parent, 'long-child')
    const starting = computes.start(child, SMALL, next()).catch(() => undefined)
    await until('its recovery', () => !existsSync(join(pgdataOf(child), 'backup_label')))
    await kill(...processesIn(pgdataOf(child)))
    await starting
    ok(await recoveryEnd(pgdataOf(child)), 'it had recovered before it could be killed')
    const { address: there } = await local.start(child, next())
    deepEqual(await query(there, COUNT), WHOLE)
    deepEqual(await query(there, 'select count(*)::int from filler'), [{ count: 200_000 }])
    await settled(() => computes.stop(child, next()))
  })

  test('a clone that is killed with its helpers begins again', { skip: CANNOT }, async () => {
    const { parent } = await runningParent('killed')
    const child = local.branch('killed-child')
    mkdirSync(home(child), { mode: 0o711 })
    const fence = next()
    const clone = storage.clone(child, parent, fence)
    const copier = await copierOf(home(child))
    process.kill(-copier, 'SIGKILL')
    equal(await clone, 'pending')
    await settled(() => storage.clone(child, parent, fence))
    deepEqual(await query((await local.start(child, next())).address, COUNT), WHOLE)
  })

  test('a clone has the files of its parent, and what they were for stays behind', { skip: CANNOT }, async () => {
    const { parent } = await runningParent('files')
    await settled(() => computes.stop(parent, next()))
    const child = await cloneOf(parent, 'files-child')
    const filesOf = (store: StoreRef) => readdirSync(pgdataOf(store), { recursive: true }).map(String).toSorted()
    const left = /^pg_(wal|stat_tmp|replslot|subtrans|notify)\/|pg_internal\.init|postmaster\.|backup_label\.old/
    deepEqual(
      filesOf(child).filter((name) => !left.test(name)),
      filesOf(parent).filter((name) => !left.test(name)),
    )
    for (const name of ['global/pg_control', 'base/1/1259', 'PG_VERSION'])
      deepEqual(readFileSync(join(pgdataOf(child), name)), readFileSync(join(pgdataOf(parent), name)))
    equal(existsSync(join(pgdataOf(child), 'backup_label')), false)
  })

  test('clones have the data of their moment; on Btrfs they are snapshots', { skip: CANNOT }, async () => {
    const { parent, address } = await runningParent('snapshot')
    const children = [await cloneOf(parent, 'snapshot-1')]
    await query(address, 'delete from item')
    await settled(() => computes.stop(parent, next()))
    children.push(await cloneOf(parent, 'snapshot-2'))
    const isSubvolume = (store: StoreRef) => statSync(pgdataOf(store)).ino === SUBVOLUME_INODE
    for (const store of [parent, ...children]) equal(isSubvolume(store), kind === 'btrfs')
    const counts = []
    for (const store of children) counts.push(await query((await local.start(store, next())).address, COUNT))
    deepEqual(counts, [WHOLE, [{ count: 0, sum: null }]])
    for (const store of children) {
      await settled(() => storage.remove(store, next()))
      equal(existsSync(home(store)), false)
    }
  })

  test('code in a compute cannot make its data directory read-only', { skip: CANNOT }, async () => {
    const { parent, address } = await runningParent('fixed')
    // BTRFS_IOC_SUBVOL_SETFLAGS (linux/btrfs.h); it exits with the error.
    const request =
      'sysopen(my $d, ".", O_DIRECTORY) or exit 99; ioctl($d, 0x4008941a, my $flags = pack "Q", 2) or exit $!'
    const copy = `copy (select 1) to program $$perl -MFcntl -e '${request}'$$`
    await rejects(query(address, copy), { detail: 'child process exited with exit code 1' })
    await settled(() => computes.stop(parent, next()))
    await settled(() => storage.remove(parent, next()))
  })

  test('clones of a store that was just restored start, whether it runs or has stopped', { skip: CANNOT }, async () => {
    const { parent } = await runningParent('just')
    const made = await makeBase(storage, parent, 1)
    const restored = local.branch('just-restored')
    await settled(() => storage.restore(restored, fromBase(parent, 1, made, new Date().toISOString()), next()))
    await local.start(restored, next())
    // Its last checkpoint is on a page of WAL that the timeline before began.
    const running = await cloneOf(restored, 'just-running')
    await settled(() => computes.stop(restored, next()))
    const stopped = await cloneOf(restored, 'just-stopped')
    const ofUnstarted = await cloneOf(running, 'just-unstarted')
    for (const clone of [running, stopped, ofUnstarted])
      deepEqual(await query((await local.start(clone, next())).address, COUNT), [{ count: 1000, sum: 500_500 }])
  })

  test('a restore from a base, and a clone of it, have the data of its moment', { skip: CANNOT }, async () => {
    const { parent, address } = await runningParent('moment')
    const made = await makeBase(storage, parent, 1)
    await query(address, 'delete from item where id = 1')
    const moment = new Date().toISOString()
    await query(address, 'delete from item')
    for (const name of ['moment-1', 'moment-2']) {
      const child = local.branch(name)
      await settled(() => storage.restore(child, fromBase(parent, 1, made, moment), next()))
      // As code in the compute may have written it.
      appendFileSync(join(pgdataOf(child), 'postgresql.auto.conf'), "restore_command = 'sleep 1000'\n")
      equal(statSync(pgdataOf(child)).ino === SUBVOLUME_INODE, kind === 'btrfs')
      // Made before its first start recovers it.
      const grandchild = await cloneOf(child, `${name}-clone`)
      const there = (await local.start(grandchild, next())).address
      deepEqual(await query(there, COUNT), [{ count: 999, sum: 500_499 }])
      deepEqual(await query((await local.start(child, next())).address, COUNT), [{ count: 999, sum: 500_499 }])
    }
  })
}
