import { deepEqual, equal, match, notEqual, ok, rejects } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FencedError } from '../../host/fence.ts'
import type { RunningCompute } from '../compute.ts'
import { PG_VERSION, SMALL, hostText, freshHost, inAnotherProcess, query, settled } from '../../../test/local_host.ts'
import { until } from '../../../test/processes.ts'
import { notedServer } from './server_note.ts'

const local = freshHost()
const { storage, computes, next, options } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

async function newBranch(name: string) {
  const branch = local.branch(name)
  await settled(() => storage.create(branch, next()))
  return branch
}

test('a compute starts, stops, and starts again with its committed rows', async () => {
  const branch = await newBranch('life')
  const first = await local.start(branch, next())
  await query(first.address, 'CREATE TABLE kept AS SELECT 42 AS answer')
  equal((await computes.find(branch))?.id, first.id)
  deepEqual(await local.start(branch, next()), { ...first, isNew: false })

  await settled(() => computes.stop(branch, next()))
  equal(await computes.find(branch), undefined)
  equal(await computes.stop(branch, next()), 'done')

  const second = await local.start(branch, next())
  notEqual(second.id, first.id)
  deepEqual(await query(second.address, 'SELECT answer FROM kept'), [{ answer: 42 }])
})

const onLinux = process.platform === 'linux' ? false : 'other systems list all stores'

test('a store on which only a program that measures it works is not listed as running', { skip: onLinux }, async () => {
  const [measured, served] = [await newBranch('measured'), await newBranch('served')]
  await local.start(served, next())
  const program = spawn('sleep', ['60'], { cwd: join(local.home(measured), 'pgdata'), stdio: 'ignore' })
  try {
    await once(program, 'spawn')
    const running = await computes.listRunning()
    deepEqual(
      [measured, served].map(({ id }) => running.includes(id)),
      [false, true],
    )
  } finally {
    program.kill()
  }
})

test('a start does not adopt a compute that has a pending stop signal', async () => {
  const branch = await newBranch('numb')
  const first = await local.start(branch, next())
  process.kill(first.pid, 'SIGSTOP')
  // The start takes the branch over, and the stop fails with FencedError.
  const stopped = settled(() => computes.stop(branch, next())).catch(() => {})
  // The second bit is SIGINT's.
  const pending = () => /^ShdPnd:\t.*[2367abef]$/m.test(readFileSync(`/proc/${first.pid}/status`, 'utf8'))
  while (!pending()) await setImmediate()
  const again = local.start(branch, next())
  // The start waits for the stop's effect lock, or has taken the stopping server for one that keeps running.
  let answered = false
  void again.finally(() => (answered = true))
  const { ino } = statSync(join(local.home(branch), 'effect.lock'))
  const waits = () => new RegExp(`-> FLOCK .*:${ino} `).test(readFileSync('/proc/locks', 'utf8'))
  while (!answered && !waits()) await setImmediate()
  process.kill(first.pid, 'SIGCONT')
  const second = await again
  notEqual(second.id, first.id)
  deepEqual(await query(second.address, 'SELECT 1 AS one'), [{ one: 1 }])
  await stopped
})

test('a compute is set up from the template: settings, roles, access and ownership', async () => {
  const branch = await newBranch('inside')
  const { address } = await local.start(branch, next())
  const [row] = await query<Record<string, string>>(
    address,
    `SELECT current_setting('data_checksums') AS checksums, current_setting('fsync') AS fsync,
            current_setting('max_connections')::int >= 500 AS enough,
            (SELECT rolpassword ~ '^SCRAM-SHA-256\\$4096:' FROM pg_authid WHERE rolname = 'neap_admin') AS verifier,
            (SELECT rolcanlogin FROM pg_roles WHERE rolname = 'neap_superuser') AS group_may_login,
            pg_encoding_to_char(encoding) AS encoding FROM pg_database WHERE datname = 'neap'`,
  )
  deepEqual(row, {
    checksums: 'on',
    fsync: 'on',
    enough: true,
    verifier: true,
    group_may_login: false,
    encoding: 'UTF8',
  })
  await query(address, "CREATE ROLE guest LOGIN PASSWORD 'guest' IN ROLE neap_superuser")
  const guest = { user: 'guest', password: 'guest' }
  deepEqual(await query(address, 'SELECT 1 AS one', guest), [{ one: 1 }])
  await rejects(query(address, 'SELECT 1', { ...guest, database: 'neap' }), /pg_hba|permission denied/)
  await rejects(query(address, 'SELECT 1', { ...guest, password: 'wrong' }), /password authentication failed/)
  await rejects(query(address, "SELECT pg_read_file('/etc/passwd')", guest), /permission denied/)
  deepEqual(await query(address, 'SHOW listen_addresses'), [{ listen_addresses: '' }])
  if (process.getuid?.() !== 0) return
  const owner = statSync(join(local.home(branch), 'pgdata'))
  equal(owner.mode & 0o777, 0o700)
  ok(owner.uid >= 2 ** 30)
  notEqual(owner.uid, statSync(join(options.dataDir, 'branches')).uid)
})

test('a compute starts after its postmaster was killed and remains a zombie', async () => {
  const branch = await newBranch('killed')
  // Its parent neither ends nor reaps it.
  const body = `const compute = await computes.start(${argumentsOf(branch, SMALL, next())})
    process.stdout.write(JSON.stringify(compute) + '\\n')
    setInterval(() => undefined, 1000)`
  const parent = spawnOther(body)
  const [line] = (await once(parent.stdout, 'data')) as [string]
  const { id, address } = JSON.parse(line) as RunningCompute
  const pid = notedServer(local.home(branch))?.pid ?? 0
  await query(address, 'CREATE TABLE kept AS SELECT 1 AS one')
  parent.kill('SIGSTOP')
  process.kill(pid, 'SIGKILL')
  while (!/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) await setImmediate()
  try {
    const again = await local.start(branch, next())
    ok(existsSync(`/proc/${pid}`), 'the zombie is still there')
    notEqual(again.id, id)
    deepEqual(await query(again.address, 'SELECT one FROM kept'), [{ one: 1 }])
  } finally {
    parent.kill('SIGKILL')
    await once(parent, 'exit')
  }
})

const argumentsOf = (...values: unknown[]) => values.map((value) => JSON.stringify(value)).join(', ')

function spawnOther(body: string) {
  const text = `${hostText(options)}\n${body}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], { stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.setEncoding('utf8')
  return child
}

test('a compute outlives the process that started it, and another adopts it', async () => {
  const branch = await newBranch('adopted')
  const started = await inAnotherProcess<RunningCompute>(
    options,
    `const compute = await computes.start(${argumentsOf(branch, SMALL, next())})
     process.stdout.write(JSON.stringify(compute), () => process.kill(process.pid, 'SIGKILL'))`,
  )
  const found = await computes.find(branch)
  equal(found?.id, started.id)
  equal((await local.start(branch, next())).id, started.id)
  await settled(() => computes.stop(branch, next()))
  equal(await computes.find(branch), undefined)
})

test('an attempt with an older fence has no effect', async () => {
  const branch = await newBranch('fenced')
  const [late, newer] = [next(), next()]
  equal(await computes.stop(branch, newer), 'done')
  await rejects(local.start(branch, late), FencedError)
  await rejects(local.start(branch, { ...newer, generation: 0 }), FencedError)
  equal(await computes.find(branch), undefined)
  const compute = await local.start(branch, { ...newer, generation: 2 })
  await rejects(computes.stop(branch, newer), FencedError)
  await rejects(storage.remove(branch, newer), FencedError)
  equal((await computes.find(branch))?.id, compute.id)
})

test('a running server whose postmaster.pid was overwritten is ended and replaced', async () => {
  const branch = await newBranch('spoilt')
  const neighbour = await newBranch('neighbour')
  const other = await local.start(neighbour, next())
  const fileOf = (id: typeof branch) => join(local.home(id), 'pgdata/postmaster.pid')
  const first = await local.start(branch, next())
  await query(first.address, 'CREATE TABLE kept AS SELECT 1 AS one')
  const foreign = readFileSync(fileOf(neighbour), 'utf8')
  for (const content of ['', 'garbage', foreign]) {
    const { id, pid } = await local.start(branch, next())
    writeFileSync(fileOf(branch), content)
    equal(await computes.find(branch), undefined)
    const again = await local.start(branch, next())
    notEqual(again.id, id)
    ok(!existsSync(`/proc/${pid}/cwd`))
    deepEqual(await query(again.address, 'SELECT one FROM kept'), [{ one: 1 }])
    writeFileSync(fileOf(branch), content)
    await settled(() => computes.stop(branch, next()))
    ok(!existsSync(`/proc/${again.pid}/cwd`))
  }
  equal((await computes.find(neighbour))?.id, other.id)
})

test('concurrent starts of a compute start one server', async () => {
  const branch = await newBranch('twice')
  const fence = next()
  const started = await Promise.all([1, 2, 3].map(() => local.start(branch, fence)))
  equal(new Set(started.map((compute) => compute.id)).size, 1)
})

test('a start with an invalid setting fails with the reason, and a setting cannot inject another', async () => {
  const branch = await newBranch('wrong')
  const start = (pgSettings: Record<string, string>) => computes.start(branch, { ...SMALL, pgSettings }, next())
  await rejects(
    start({ work_mem: 'plenty' }),
    /Postgres refuses its settings: .*invalid value for parameter "work_mem": "plenty"/,
  )
  await rejects(start({ 'no name': '1' }), /is not the name of a setting/)
  await rejects(start({ work_mem: "1MB'\nfsync = 'off" }), /control character/)
  const compute = await start({ work_mem: '3MB', fsync: 'off', 'app.note': "it's a \\ test" })
  if (compute === 'pending') throw new Error('a start took long')
  const settings = await query<{ name: string; setting: string }>(
    compute.address,
    `SELECT current_setting('work_mem') AS work_mem, current_setting('fsync') AS fsync,
            current_setting('app.note') AS note`,
  )
  deepEqual(settings, [{ work_mem: '3MB', fsync: 'on', note: "it's a \\ test" }])
})

test('removing a branch leaves no files, ends its sessions, and prevents its re-creation', async () => {
  const branch = await newBranch('removed')
  const fence = next()
  const { pid } = await local.start(branch, fence)
  process.kill(pid, 'SIGSTOP')
  await settled(() => storage.remove(branch, next()))
  ok(!existsSync(`/proc/${pid}/cwd`))
  equal((await storage.list()).includes(branch.id), false)
  await rejects(local.start(branch, next()), /is not in the data directory of this host/)
  await rejects(storage.create(branch, next()), /was removed/)
  equal((await storage.list()).includes(branch.id), false)
  equal(await storage.remove(branch, next()), 'done')
})

test('removing a branch after its server was killed leaves no shared memory', async () => {
  const branch = await newBranch('memory')
  const { pid } = await local.start(branch, next())
  const id = readFileSync(join(local.home(branch), 'pgdata/postmaster.pid'), 'utf8')
    .split('\n')[6]
    ?.trim()
    .split(/\s+/)[1]
  const segments = () =>
    readFileSync('/proc/sysvipc/shm', 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/)[1])
  // With the wall `ipc` the host never sees the segment.
  equal(segments().includes(id), !(await computes.walls()).includes('ipc'))
  process.kill(pid, 'SIGKILL')
  await settled(() => storage.remove(branch, next()))
  ok(!segments().includes(id))
})

test('the log of a running server is kept small, and the server writes to the new file', async () => {
  const branch = await newBranch('logs')
  const { id, address } = await local.start(branch, next())
  const log = join(options.dataDir, 'logs', branch.id, 'postgres.log')
  const watch = computes.watch(() => undefined)
  watch.follow({ id, storeId: branch.id })
  for (const [index, text] of ['a', 'b', 'c', 'd', 'e'].entries()) {
    writeFileSync(log, text.repeat(11 * 2 ** 20), { flag: 'a' })
    await until('it is rotated', () => existsSync(`${log}.1`) && statSync(log).size === 0)
    equal(readFileSync(`${log}.1`, 'utf8'), text.repeat(2 * 2 ** 20))
    equal(existsSync(`${log}.3`), index >= 2)
  }
  watch.stop()
  ok(!existsSync(`${log}.4`))
  await query(address, "DO $$ BEGIN RAISE WARNING 'after rotation'; END $$")
  match(readFileSync(log, 'utf8'), /^[^\0]*after rotation/)
  ok(statSync(log).size < 1000)
})
