import { deepEqual, equal, notEqual, ok, rejects } from 'node:assert/strict'
import {
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import type { ComputeAddress } from '../compute/compute.ts'
import { ConfigurationError } from '../host/failures.ts'
import type { StoreRef } from './storage.ts'
import {
  PG_VERSION,
  SECRETS,
  copierOf,
  fileAppears,
  freshHost,
  inAnotherProcess,
  processesIn,
  query,
  settled,
} from '../../test/local_host.ts'

const local = freshHost()
const { storage, computes, next, home } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

async function newBranch(name: string) {
  const branch = local.branch(name)
  await settled(() => storage.create(branch, next()))
  return branch
}

/** Begins a clone and freezes its copier as soon as it has begun. */
async function frozenClone(child: StoreRef, parent: StoreRef) {
  const fence = next()
  mkdirSync(home(child), { mode: 0o711 })
  const clone = storage.clone(child, parent, fence)
  await fileAppears(home(child), 'pgdata.making')
  const copier = await copierOf(home(child))
  process.kill(copier, 'SIGSTOP')
  ok(!existsSync(join(home(child), 'pgdata')), 'the copy was over before it could be frozen')
  return { clone, copier, again: () => settled(() => storage.clone(child, parent, fence)) }
}

test('a clone of a stopped parent has its rows, and the two are isolated from each other', async () => {
  const parent = await newBranch('rest')
  await query((await local.start(parent, next())).address, 'CREATE TABLE item AS SELECT generate_series(1, 1000) AS id')
  await settled(() => computes.stop(parent, next()))
  const child = local.branch('rest-child')
  await settled(() => storage.clone(child, parent, next()))
  deepEqual(readdirSync(home(parent)).includes('copies') && readdirSync(join(home(parent), 'copies')), [])

  const [above, below] = [(await local.start(parent, next())).address, (await local.start(child, next())).address]
  await query(above, 'DELETE FROM item WHERE id <= 100')
  await query(below, 'DELETE FROM item WHERE id <= 10; INSERT INTO item VALUES (0)')
  deepEqual(await query(above, 'SELECT count(*)::int, min(id) FROM item'), [{ count: 900, min: 101 }])
  deepEqual(await query(below, 'SELECT count(*)::int, min(id) FROM item'), [{ count: 991, min: 0 }])
})

test('a clone takes no more of a control file than Postgres writes', async () => {
  const parent = await newBranch('control')
  await local.start(parent, next())
  // As code in the compute could make it.
  truncateSync(join(home(parent), 'pgdata/global/pg_control'), 32 * 2 ** 20)
  const child = local.branch('control-child')
  await settled(() => storage.clone(child, parent, next()))
  equal(statSync(join(home(child), 'pgdata/global/pg_control')).size, 8192)
  await local.start(child, next())
})

const TABLES = 60

/** Moves value from the last table to all others until stopped: the sum changes if part of a turn is lost. */
function transfers(address: ComputeAddress) {
  let running = true
  const client = new pg.Client({
    ...address,
    user: 'neap_admin',
    password: SECRETS.admin(address.store)[0],
    database: 'postgres',
  })
  const over = (async () => {
    await client.connect()
    while (running) await client.query('CALL transfer()')
    await client.end()
  })()
  return async () => {
    running = false
    await over
  }
}

const SUM = `SELECT sum((xpath('/row/s/text()',
                               query_to_xml(format('SELECT sum(value) AS s FROM %I', relname), true, true, '')
                        ))[1]::text::bigint)::int AS sum
             FROM pg_class WHERE relname LIKE 'account_%' AND relkind = 'r'`

const ROWS = `SELECT md5(string_agg(query_to_xml(format('TABLE %I', relname), true, true, '')::text, ''
                                    ORDER BY relname))
              FROM pg_class WHERE relname LIKE 'account_%' AND relkind = 'r'`

async function newBank(name: string) {
  const parent = await newBranch(name)
  const { address } = await local.start(parent, next())
  await query(
    address,
    `DO $$ BEGIN FOR i IN 1..${TABLES} LOOP
       EXECUTE format('CREATE TABLE account_%s AS SELECT 100 AS value FROM generate_series(1, 10)', i);
     END LOOP; END $$;
     CREATE PROCEDURE transfer() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..${TABLES} LOOP
       EXECUTE format('UPDATE account_%s SET value = value + %s', i,
                      CASE WHEN i < ${TABLES} THEN i ELSE -${(TABLES * (TABLES - 1)) / 2} END);
     END LOOP; END $$;`,
  )
  return { parent, address }
}

test('concurrent clones of a running parent under writes are consistent', async () => {
  const { parent, address } = await newBank('busy')
  const stop = transfers(address)
  const children = [1, 2, 3, 4].map((number) => local.branch(`busy-${number}`))
  await Promise.all(children.map((child) => settled(() => storage.clone(child, parent, next()))))
  await stop()
  for (const child of children) {
    deepEqual(await query((await local.start(child, next())).address, SUM), [{ sum: TABLES * 1000 }])
  }
  deepEqual(await query(address, "SELECT slot_name FROM pg_replication_slots WHERE slot_name <> 'neap_history'"), [])
})

test('a clone has the rows of its parent though that made a checkpoint while its files were copied', async () => {
  const { parent, address } = await newBank('label')
  const [{ oid } = { oid: 0 }] = await query<{ oid: number }>(
    address,
    "SELECT oid FROM pg_database WHERE datname = 'postgres'",
  )
  const child = await cloneFrozenHalfway(parent, String(oid), async () => {
    // Pages copied before this checkpoint are older than it: recovery has to begin before it.
    await query(address, 'CALL transfer()')
    await query(address, 'CHECKPOINT')
  })
  const rows = await query(address, ROWS)
  deepEqual(await query((await local.start(child, next())).address, ROWS), rows)
})

/** Clones a running parent. Runs `meanwhile` when part of the given database was copied, but not the control file. */
async function cloneFrozenHalfway(
  parent: StoreRef,
  database: string,
  meanwhile: () => Promise<void>,
): Promise<StoreRef> {
  for (let attempt = 1; attempt <= 10; attempt++) {
    const child = local.branch(`label-child-${attempt}`)
    const making = join(home(child), 'pgdata.making')
    mkdirSync(home(child), { mode: 0o711 })
    const fence = next()
    const clone = storage.clone(child, parent, fence)
    await fileAppears(home(child), 'pgdata.making')
    await fileAppears(making, 'base')
    await fileAppears(join(making, 'base'), database)
    const directory = join(making, 'base', database)
    while (existsSync(directory) && readdirSync(directory).length < 150);
    const copier = await copierOf(home(child))
    process.kill(copier, 'SIGSTOP')
    const inTime = existsSync(directory) && !existsSync(join(making, 'global/pg_control'))
    if (inTime) await meanwhile()
    process.kill(copier, 'SIGCONT')
    if ((await clone) === 'pending') await settled(() => storage.clone(child, parent, fence))
    if (inTime) return child
  }
  throw new Error('the copier could not be frozen halfway')
}

test('a start of a stopped parent ends a running copy of it, which the next attempt completes', async () => {
  const parent = await newBranch('woken')
  const child = local.branch('woken-child')
  const { clone, copier, again } = await frozenClone(child, parent)
  const { address } = await local.start(parent, next())
  ok(!processesIn(home(child)).includes(copier))
  equal(await clone, 'pending')
  await query(address, 'CREATE TABLE item AS SELECT 7 AS seven')
  await again()
  deepEqual(await query((await local.start(child, next())).address, 'SELECT * FROM item'), [{ seven: 7 }])
})

test('a branch can be removed while its data is copied', async () => {
  const parent = await newBranch('source')
  const child = local.branch('unwanted')
  const { clone, copier, again } = await frozenClone(child, parent)
  await settled(() => storage.remove(child, next()))
  equal(await clone, 'pending')
  ok(!existsSync(`/proc/${copier}/cwd`))
  await rejects(again(), /was removed/)
  equal((await storage.list()).includes(child.id), false)
})

test('a copy outlives the process that requested it, and restarts after it was ended', async () => {
  const parent = await newBranch('origin')
  const child = local.branch('orphan')
  const fence = next()
  mkdirSync(home(child), { mode: 0o711 })
  const asked = inAnotherProcess(
    local.options,
    `const { watch } = await import('node:fs')
     watch(${JSON.stringify(home(child))}, (event, name) => name === 'copier' && process.kill(process.pid, 'SIGKILL'))
     await storage.clone(${JSON.stringify(child)}, ${JSON.stringify(parent)}, ${JSON.stringify(fence)})`,
  )
  const copier = await copierOf(home(child))
  await asked
  await settled(() => storage.clone(child, parent, fence))
  ok(existsSync(join(home(child), 'pgdata')))

  const second = local.branch('killed-copy')
  const frozen = await frozenClone(second, parent)
  notEqual(frozen.copier, copier)
  await storage.stopCopies()
  equal(await frozen.clone, 'pending')
  await frozen.again()
  equal(readFileSync(join(home(second), 'pgdata/PG_VERSION'), 'utf8').trim(), String(PG_VERSION))
})

test('a copy that fails after the call has ended tells the next call why, and is made by the one after', async () => {
  const parent = await newBranch('late')
  const child = local.branch('late-child')
  const { clone, copier, again } = await frozenClone(child, parent)
  equal(await clone, 'pending')
  const making = join(home(child), 'pgdata.making')
  rmSync(making, { recursive: true })
  writeFileSync(making, '')
  process.kill(copier, 'SIGCONT')
  await storage.filled(child)
  await rejects(again(), /ENOTDIR/)
  await again()
  ok(existsSync(join(home(child), 'pgdata')))
})

test('what takes no room in a parent takes none in a copy of it', async () => {
  const parent = await newBranch('sparse')
  const pgdata = join(home(parent), 'pgdata')
  const [content, end] = [Buffer.alloc(2 ** 20, 'x'), 2 ** 26]
  const file = openSync(join(pgdata, 'base/sparse'), 'w')
  // A block of data, and another one behind much that has none.
  writeSync(file, content, 0, 4096, 2 ** 20 - 4096)
  writeSync(file, content, 0, 100, end - 100)
  closeSync(file)
  const child = local.branch('sparse-child')
  await settled(() => storage.clone(child, parent, next()))
  const copy = join(home(child), 'pgdata/base/sparse')
  equal(statSync(copy).size, end)
  ok(statSync(copy).blocks * 512 < 2 ** 16)
  ok(readFileSync(copy).equals(readFileSync(join(pgdata, 'base/sparse'))))

  linkSync(join(pgdata, 'base/sparse'), join(pgdata, 'base/name'))
  await rejects(
    settled(() => storage.clone(local.branch('linked-child'), parent, next())),
    /has a file with several names/,
  )
  rmSync(join(pgdata, 'base/name'))
  const [segment = ''] = readdirSync(join(pgdata, 'pg_wal')).filter((name) => /^[0-9A-F]{24}$/.test(name))
  truncateSync(join(pgdata, 'pg_wal', segment), 2 ** 40)
  await rejects(
    settled(() => storage.clone(local.branch('large-child'), parent, next())),
    /pg_wal\/[0-9A-F]{24} has more than 16777216 bytes/,
  )
})

test('a clone of a parent whose data are not there fails for good', async () => {
  const parent = await newBranch('absent')
  rmSync(join(home(parent), 'pgdata'), { recursive: true })
  await rejects(storage.clone(local.branch('absent-child'), parent, next()), ConfigurationError)
})

test('a clone skips symbolic links and refuses tablespaces', async () => {
  const parent = await newBranch('odd')
  const pgdata = join(home(parent), 'pgdata')
  symlinkSync('/etc/passwd', join(pgdata, 'base/link'))
  const child = local.branch('odd-child')
  await settled(() => storage.clone(child, parent, next()))
  ok(!existsSync(join(home(child), 'pgdata/base/link')))
  symlinkSync('/tmp', join(pgdata, 'pg_tblspc/1234'))
  const other = local.branch('odd-other')
  await rejects(
    settled(() => storage.clone(other, parent, next())),
    /has tablespaces of its own/,
  )
})
