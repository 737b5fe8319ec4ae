import { deepEqual, equal, fail, ok } from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../../test/processes.ts'
import { copierOf, freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import type { StoreRef } from './storage.ts'

/* Copies of one running parent that begin while its backup does. */

const local = freshHost()
const { storage, computes, next, home } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

async function runningParent(name: string) {
  const parent = local.branch(name)
  await settled(() => storage.create(parent, next()))
  const { address, pid } = await local.start(parent, next())
  await query(address, 'create table item as select generate_series(1, 1000) as id')
  return { parent, address, pid }
}

/** Begins clones. Their backup waits for a checkpoint until `thaw` is called. Waits until all have joined it. */
async function waitingClones(name: string, parent: StoreRef, pid: number, count: number) {
  // Within its walls the server is a child of the process that started it.
  const below = childrenOf(pid).flatMap((child) => [child, ...childrenOf(child)])
  const checkpointer = below.find((child) => commandOf(child).includes('checkpointer')) ?? 0
  ok(checkpointer > 1, `${pid} has no checkpointer`)
  process.kill(checkpointer, 'SIGSTOP')
  const clones = []
  for (let number = 1; number <= count; number++) {
    const child = local.branch(`${name}-${number}`)
    const fence = next()
    mkdirSync(home(child), { mode: 0o711 })
    const again = () => storage.clone(child, parent, fence)
    const first = again()
    const copier = await copierOf(home(child))
    await until('it joins the backup', () => hasSocket(copier))
    clones.push({ child, copier, done: () => first.then(() => settled(again)) })
  }
  return { clones, thaw: () => process.kill(checkpointer, 'SIGCONT') }
}

const childrenOf = (pid: number): number[] =>
  readProc(`${pid}/task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number)

const commandOf = (pid: number): string => readProc(`${pid}/cmdline`)

/** Reads a file in /proc; empty once its process has ended. */
function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'utf8')
  } catch {
    return ''
  }
}

/** Whether a copier is connected: its standard input is a socket too. */
function hasSocket(pid: number): boolean {
  if (commandOf(pid).startsWith('perl')) return false
  return readdirSync(`/proc/${pid}/fd`).some((file) => {
    try {
      return Number(file) > 2 && readlinkSync(`/proc/${pid}/fd/${file}`).startsWith('socket:')
    } catch {
      return false
    }
  })
}

const labelOf = (child: StoreRef): string => readFileSync(join(home(child), 'pgdata/backup_label'), 'utf8')
const segmentsOf = (branch: StoreRef): string[] =>
  readdirSync(join(home(branch), 'pgdata/pg_wal')).filter((name) => /^[0-9A-F]{24}$/.test(name))

async function hasRows(child: StoreRef): Promise<void> {
  const { address } = await local.start(child, next())
  deepEqual(await query(address, 'select count(*)::int, sum(id)::int from item'), [{ count: 1000, sum: 500_500 }])
  await settled(() => computes.stop(child, next()))
}

test('clones of a running parent that are asked for at once share a backup, and hold its WAL only', async () => {
  const { parent, address, pid } = await runningParent('shared')
  const position = async () => (await query<{ lsn: string }>(address, 'select pg_current_wal_lsn() as lsn'))[0]?.lsn
  const earlier = await position()
  const { clones, thaw } = await waitingClones('shared', parent, pid, 6)
  thaw()
  for (const { done } of clones) await done()
  const [first] = clones
  for (const { child } of clones) {
    equal(labelOf(child), labelOf((first as { child: StoreRef }).child))
    const segments = segmentsOf(child)
    ok(segments.length <= 2, `it has ${segments.join(' ')}`)
    const bytes = segments.map((name) => statSync(join(home(child), 'pgdata/pg_wal', name)).blocks * 512)
    ok(Math.max(...bytes) < 4 * 2 ** 20, `segments are copied without their zeros: ${bytes.join(' ')}`)
  }
  const grown = await query<{ bytes: number }>(
    address,
    `select pg_wal_lsn_diff('${await position()}', '${earlier}')::int as bytes`,
  )
  ok((grown[0]?.bytes ?? Infinity) <= 3 * 16 * 2 ** 20, `the clones made ${grown[0]?.bytes} bytes of WAL`)
  deepEqual(await query(address, "select slot_name from pg_replication_slots where slot_name <> 'neap_history'"), [])
  for (const { child } of clones.slice(0, 2)) await hasRows(child)
})

test('when the copier that holds the backup is killed, all that share it begin again', async () => {
  const { parent, pid } = await runningParent('killed')
  const { clones, thaw } = await waitingClones('killed', parent, pid, 3)
  process.kill(clones[0]?.copier ?? fail('there is no copier'), 'SIGKILL')
  thaw()
  for (const { done } of clones) await done()
  for (const { child } of clones) await hasRows(child)
})

test('when another copier is killed, it alone begins again', async () => {
  const { parent, pid } = await runningParent('member')
  const { clones, thaw } = await waitingClones('member', parent, pid, 3)
  const [holder, killed, other] = clones
  if (!holder || !killed || !other) throw new Error('there are three')
  process.kill(killed.copier, 'SIGKILL')
  thaw()
  for (const { done } of clones) await done()
  equal(labelOf(other.child), labelOf(holder.child))
  ok(labelOf(killed.child) !== labelOf(holder.child))
  for (const { child } of clones) await hasRows(child)
})
