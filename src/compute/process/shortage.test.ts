import { deepEqual, equal, match, rejects } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled, SMALL } from '../../../test/local_host.ts'
import { outsidePid, until } from '../../../test/processes.ts'
import { mountSmallDisk, type SmallDisk, withoutMounts } from '../../../test/small_disk.ts'

/*
 * A machine that lacks a resource reports it with the remedy, leaves no partial state, and continues when the resource
 * is back.
 */

const local = freshHost()
const { storage, computes, next, home, options } = local
const cannotMount = withoutMounts()
let disk: SmallDisk | undefined

before(async () => {
  if (cannotMount === false) disk = mountSmallDisk(options.dataDir, 700)
  else console.error(`NOT SEEN: a full disk, since ${cannotMount}`)
  await storage.prepare(PG_VERSION)
})

after(async () => {
  disk?.drain()
  await local.dispose(() => disk?.unmount())
})

async function newBranch(name: string) {
  const branch = local.branch(name)
  await settled(() => storage.create(branch, next()))
  return branch
}

/** Runs `act` while the disk is full, then frees the space. */
async function full(act: () => Promise<void>, use = () => disk?.fill()): Promise<void> {
  use()
  try {
    await act()
  } finally {
    disk?.drain()
  }
}

const FULL = /^The disk of .* is full: make room there\. \(/
const halfMade = (branch: Parameters<typeof home>[0]) =>
  existsSync(home(branch)) ? readdirSync(home(branch)).filter((name) => name.startsWith('pgdata')) : []

test(
  'a full disk fails creates and clones without partial state, and they succeed with room',
  { skip: cannotMount },
  async () => {
    const resting = await newBranch('resting')
    const running = await newBranch('running')
    const { address } = await local.start(running, next())
    await query(address, 'SELECT')
    const made = local.branch('made')
    const [ofResting, ofRunning] = [local.branch('of-resting'), local.branch('of-running')]
    const all = [
      () => storage.create(made, next()),
      () => storage.clone(ofResting, resting, next()),
      () => storage.clone(ofRunning, running, next()),
    ]
    await full(async () => {
      for (const make of all) await rejects(settled(make), { message: FULL })
      for (const branch of [made, ofResting, ofRunning]) deepEqual(halfMade(branch), [])
      deepEqual(await query(address, 'SELECT 1 AS one'), [{ one: 1 }])
    })
    await full(
      async () => {
        const another = local.branch('another')
        for (const make of [...all, () => storage.create(another, next())])
          await rejects(settled(make), /has no inodes left: remove files there/)
      },
      () => disk?.useInodes(),
    )
    for (const make of all) await settled(make)
    for (const branch of [made, ofResting, ofRunning]) deepEqual(halfMade(branch), ['pgdata'])
    for (const branch of [made, ofResting, ofRunning, running]) await settled(() => storage.remove(branch, next()))
  },
)

test(
  'a clone that the disk has no room for says how much it needs, and takes none',
  { skip: cannotMount },
  async () => {
    const parent = await newBranch('parent')
    const child = local.branch('child')
    const clone = () => settled(() => storage.clone(child, parent, next()))
    await full(
      async () => {
        await rejects(
          clone(),
          /make room there\. \(no space left on device: the copy needs [\d.]+ MiB, and [\d.]+ MiB are free\)/,
        )
        deepEqual(halfMade(child), [])
      },
      () => disk?.fill(8),
    )
    await clone()
    for (const branch of [child, parent]) await settled(() => storage.remove(branch, next()))
  },
)

test(
  'on a full disk a start fails, the end of a server is reported, and a branch is removable',
  { skip: cannotMount },
  async (t) => {
    const branch = await newBranch('writes')
    const reader = await newBranch('reads')
    const ended = Promise.withResolvers<string>()
    const watch = computes.watch(ended.resolve)
    t.after(() => watch.stop())
    const { id, address, startedAt } = await local.start(branch, next())
    const other = await local.start(reader, next())
    await query(other.address, 'SELECT')
    await query(other.address, 'SELECT')
    watch.follow({ id, storeId: branch.id })
    watch.follow({ id: other.id, storeId: other.address.store })
    await query(address, 'CREATE TABLE kept AS SELECT 1 AS one')
    await full(async () => {
      const log = "SELECT pg_logical_emit_message(false, '', repeat('x', 1000000)) FROM generate_series(1, 200)"
      await rejects(query(address, log), /No space left on device/)
      equal(await ended.promise, id)
      await rejects(local.start(branch, next()), { message: FULL })
      deepEqual(await query(other.address, 'SELECT 1 AS one'), [{ one: 1 }])
      await settled(() => storage.remove(reader, next()))
      equal((await storage.list()).includes(reader.id), false)
    })
    match(await computes.lastWords(branch, { id: '', startedAt }), /^(.*No space left on device.*)?$/)
    const again = await local.start(branch, next())
    deepEqual(await query(again.address, 'SELECT one FROM kept'), [{ one: 1 }])
    await settled(() => computes.stop(branch, next()))
  },
)

test('a start on a filesystem mounted read-only fails with the remedy', { skip: cannotMount }, async () => {
  const branch = await newBranch('ro')
  disk?.readOnly(true)
  try {
    await rejects(local.start(branch, next()), /mounted read-only: mount it writable/)
    await rejects(storage.create(local.branch('ro-made'), next()), /mounted read-only: mount it writable/)
  } finally {
    disk?.readOnly(false)
  }
  await local.start(branch, next())
})

test('a start without enough memory fails with the remedy', async () => {
  const branch = await newBranch('memory')
  const greedy = { ...SMALL, pgSettings: { shared_buffers: '8000GB' } }
  await rejects(computes.start(branch, greedy, next()), /^Error: This machine has too little memory: free some/)
  await local.start(branch, next())
})

test('a server ends when the kernel kills a backend, its end is reported, and it starts again', async (t) => {
  const branch = await newBranch('killed-backend')
  const ended = Promise.withResolvers<string>()
  const watch = computes.watch(ended.resolve)
  t.after(() => watch.stop())
  const { id, address, pid, startedAt } = await local.start(branch, next())
  watch.follow({ id, storeId: branch.id })
  await query(address, 'CREATE TABLE kept AS SELECT 1 AS one')
  const session = query(address, 'SELECT pg_sleep(3600)')
  const lost = rejects(session)
  const busy = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(3600)'"
  let victim: { pid: number } | undefined
  while (!victim) [victim] = await query<{ pid: number }>(address, busy)
  process.kill(outsidePid(pid, victim.pid), 'SIGKILL')
  await lost
  equal(await ended.promise, id)
  match(await computes.lastWords(branch, { id: '', startedAt }), /terminated by signal 9/)
  equal(await computes.lastWords(branch, { id: '', startedAt: new Date(Date.now() + 60_000) }), '')
  const again = await local.start(branch, next())
  deepEqual(await query(again.address, 'SELECT one FROM kept'), [{ one: 1 }])
})

test('without free descriptors a lookup fails, and does not report a running compute as ended', async (t) => {
  const branch = await newBranch('files')
  const { id } = await local.start(branch, next())
  const limits = readFileSync('/proc/self/limits', 'utf8')
  const [, soft, hard] = /^Max open files +(\d+) +(\d+)/m.exec(limits) ?? []
  // Started in advance: without descriptors no process could be started to raise the limit again.
  const script = `while read limit; do prlimit --pid ${process.pid} --nofile=$limit:${hard}; echo set; done`
  const setter = spawn('sh', ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => setter.kill())
  const limit = async (value: string | undefined): Promise<void> => {
    setter.stdin.write(`${value}\n`)
    await once(setter.stdout, 'data')
  }
  await limit('3')
  try {
    await rejects(computes.find(branch), /^Error: A process has as many files open as it may/)
    await rejects(local.start(branch, next()), /^Error: A process has as many files open as it may/)
  } finally {
    await limit(soft)
  }
  equal((await computes.find(branch))?.id, id)
})

test('a running compute is told to refuse writes on a full disk', { skip: cannotMount }, async () => {
  const branch = await newBranch('refusing')
  const { address } = await local.start(branch, next())
  const setting = async () => {
    await query(address, 'select pg_reload_conf()')
    return query(address, 'show default_transaction_read_only')
  }
  // The first session of a database writes a file, which on a full disk it cannot.
  await setting()
  const refuseAndAccept = async () => {
    await computes.configure(branch, { ...SMALL, refusesWrites: true }, next())
    await until('it refuses writes', async () => JSON.stringify(await setting()).includes('"on"'))
    await computes.configure(branch, SMALL, next())
    await until('it accepts writes', async () => JSON.stringify(await setting()).includes('"off"'))
  }
  await full(refuseAndAccept)
  await full(refuseAndAccept, () => disk?.useInodes())
  deepEqual(readdirSync(`${home(branch)}/conf`).toSorted(), ['neap.conf', 'pg_hba.conf'])
  await settled(() => computes.stop(branch, next()))
})
