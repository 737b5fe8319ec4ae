import { deepEqual, doesNotMatch, match } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { freshHost, PG_VERSION, query, SECRETS, settled } from '../../../test/local_host.ts'
import { kill, outsidePid, until } from '../../../test/processes.ts'
import type { RunningCompute } from '../compute.ts'

/** Shorter than in use, except where another step must not come first. */
const stopSeconds = { walsenders: 1, sessions: 2, checkpoint: 300, kill: 10 }
const local = freshHost({ stopSeconds })
const { storage, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

const LOOP = 'do $$ begin loop end loop; end $$'

async function startedWithRow(name: string, on = local) {
  const branch = on.branch(name)
  await settled(() => on.storage.create(branch, on.next()))
  const compute = await on.start(branch, on.next())
  await query(compute.address, 'create table kept (n int); insert into kept values (1)')
  const log = () => readFileSync(join(on.options.dataDir, 'logs', branch.id, 'postgres.log'), 'utf8')
  return { branch, compute, log, stop: () => settled(() => on.computes.stop(branch, on.next())) }
}

async function client(compute: RunningCompute, more: pg.ClientConfig = {}): Promise<pg.Client> {
  const { host, port, store } = compute.address
  const password = SECRETS.admin(store)[0]
  const connected = new pg.Client({ host, port, user: 'neap_admin', password, database: 'postgres', ...more })
  connected.on('error', () => undefined)
  await connected.connect()
  return connected
}

const rowsOf = async (compute: RunningCompute) => query(compute.address, 'select n from kept')

test('a stop does not wait for a subscriber that confirms nothing', async () => {
  const { branch, compute, log, stop } = await startedWithRow('subscribed')
  for (const statement of [
    'alter system set wal_sender_timeout = 0',
    'select pg_reload_conf()',
    'create publication news for all tables',
    `select pg_create_logical_replication_slot('news', 'pgoutput')`,
  ])
    await query(compute.address, statement)
  const subscriber = await client(compute, { replication: 'database' } as pg.ClientConfig)
  subscriber
    .query(`START_REPLICATION SLOT news LOGICAL 0/0 (proto_version '1', publication_names 'news')`)
    .catch(() => undefined)
  await until('the stream', async () => {
    const rows = await query(compute.address, `select 1 from pg_stat_replication where state = 'streaming'`)
    return rows.length > 0
  })
  await query(compute.address, 'insert into kept values (2)')
  await stop()
  match(log(), /received fast shutdown request/)
  doesNotMatch(log(), /immediate shutdown/)
  deepEqual(await rowsOf(await local.start(branch, next())), [{ n: 1 }, { n: 2 }])
  await stop()
})

test('a session that answers no signal is ended by an immediate shutdown, and no commit is lost', async () => {
  const { branch, compute, log, stop } = await startedWithRow('deaf')
  const session = await client(compute)
  const { rows } = await session.query<{ pid: number }>('select pg_backend_pid() as pid')
  process.kill(outsidePid(compute.pid, rows[0]?.pid ?? 0), 'SIGSTOP')
  await stop()
  match(log(), /received fast shutdown request[^]*received immediate shutdown request/)
  deepEqual(await rowsOf(await local.start(branch, next())), [{ n: 1 }])
  await stop()
})

test('a postmaster that answers no signal is killed last, and no commit is lost', async (t) => {
  const impatient = freshHost({ stopSeconds: { walsenders: 0, sessions: 1, checkpoint: 1, kill: 1 } })
  t.after(() => impatient.dispose())
  await impatient.storage.prepare(PG_VERSION)
  const { branch, compute, stop } = await startedWithRow('stuck', impatient)
  process.kill(compute.pid, 'SIGSTOP')
  await stop()
  deepEqual(await rowsOf(await impatient.start(branch, impatient.next())), [{ n: 1 }])
  await stop()
})

test('a start does not wait for the queries of a server whose postmaster was killed', async (t) => {
  const bare = freshHost({ lacks: ['processes'] })
  t.after(() => bare.dispose())
  await bare.storage.prepare(PG_VERSION)
  const { branch, compute, stop } = await startedWithRow('orphans', bare)
  const session = await client(compute)
  const lost = session.query(LOOP).catch(() => undefined)
  await until('the loop', async () => {
    const active = await query(compute.address, `select 1 from pg_stat_activity where query like 'do %'`)
    return active.length > 0
  })
  await kill(compute.pid)
  const again = await bare.start(branch, bare.next())
  deepEqual(await rowsOf(again), [{ n: 1 }])
  await lost
  await stop()
})

test('a stop ends what a killed postmaster has left', async (t) => {
  const bare = freshHost({ lacks: ['processes'] })
  t.after(() => bare.dispose())
  await bare.storage.prepare(PG_VERSION)
  const { compute, stop } = await startedWithRow('left', bare)
  const session = await client(compute)
  const lost = session.query(LOOP).catch(() => undefined)
  await until('the loop', async () => {
    const active = await query(compute.address, `select 1 from pg_stat_activity where query like 'do %'`)
    return active.length > 0
  })
  await kill(compute.pid)
  await stop()
  await lost
  deepEqual(await bare.computes.listRunning(), [])
})
