import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, chmodSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { codeIn, type CodeInCompute } from '../code_in_compute.ts'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { processesOf } from '../processes.ts'
import { branchOff, computeOf, firstPlace, type Place } from '../project.ts'

/*
 * The reach of code in a compute, besides its own data. Its superuser stands in for a vulnerability in Postgres: with
 * COPY … PROGRAM it runs a shell as the user of the compute. Each attack succeeded before computes had walls.
 */

let neap: Neap
let place: Place
let code: pg.Client
let shell: CodeInCompute['shell']
let server: Server
let outside: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table kept as select 1 as one')
  ;({ session: code, shell } = await codeIn(neap, place))
  server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  outside = mkdtempSync('/tmp/neap-outside-')
  chmodSync(outside, 0o777)
})
after(async () => {
  await code?.end()
  server?.close()
  rmSync(outside, { recursive: true, force: true })
  await neap?.stop()
})

test('a compute sees its own data and programs, and no other file', async () => {
  const { data_dir } = neap.ready
  const other = await branchOff(neap, place)
  await query(neap, other.uri, 'select 1')
  const secrets = [join(data_dir, 'secret.key'), join(data_dir, 'catalog'), join(data_dir, 'state.json'), '/etc/shadow']
  for (const path of [...secrets, '/root', '/home', outside])
    assert.match(await shell(`ls ${path} || true`), /No such file|cannot access/, path)
  const branches = await shell(`ls ${join(data_dir, 'branches')}`)
  assert.equal(branches.split('\n').length, 1, branches)
  assert.match(await shell(`touch /usr/x /x ${data_dir}/x || true`), /Read-only file system/)
})

test('a compute cannot execute or load a file that it wrote', async () => {
  const script =
    'cp /bin/echo mine && chmod 755 mine && ./mine ran; cp /bin/echo /tmp/mine && /tmp/mine ran; rm mine /tmp/mine'
  const said = await shell(`${script}; true`)
  assert.doesNotMatch(said, /^ran$/m)
  assert.match(said, /Permission denied/)
  // As an output plugin, any session with replication could load it.
  const lib = dirname(dirname(await serverProgram()))
  const [library] = ['lib/postgresql/test_decoding.so', 'lib/test_decoding.so']
    .map((path) => join(lib, path))
    .filter(existsSync)
  assert.ok(library)
  await shell(`cp ${library} plugin.so && chmod 755 plugin.so`)
  copyFileSync(library, join(outside, 'plugin.so'))
  chmodSync(join(outside, 'plugin.so'), 0o755)
  const directory = (await code.query<{ data_directory: string }>('show data_directory')).rows[0]?.data_directory
  for (const path of [`${directory}/plugin.so`, `${outside}/plugin.so`])
    await assert.rejects(
      code.query('select pg_create_logical_replication_slot($1, $2)', ['stolen', path]),
      /could not (access|load)/,
      path,
    )
  await shell('rm plugin.so')
})

test(
  'a compute cannot execute a file in memory, or watch files',
  { skip: process.arch !== 'x64' && 'numbers of x64' },
  async () => {
    const memfd = `perl -e '$n = "x"; print syscall(319, $n, 0) < 0 ? "refused" : "made"'`
    assert.equal(await shell(memfd), 'refused')
    // In an ordinary user's installation its inotify instances would count against the user's limit, which Neap's own
    // starts need.
    assert.equal(await shell(`perl -e 'print syscall(294, 0) < 0 ? "refused" : "made"'`), 'refused')
  },
)

async function serverProgram(): Promise<string> {
  const { pid } = (await computeOf(neap, place)) ?? {}
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0] ?? ''
}

test('a compute sees and signals only its own processes', async () => {
  const victims = processesOf(neap.ready.data_dir).map(({ pid }) => pid)
  assert.ok(victims.length > 3)
  const said = await shell(`for pid in ${victims.join(' ')}; do kill -0 $pid && echo reached $pid; done; true`)
  const own = Number(await shell('for i in 1; do sh -c "echo \\$PPID"; done'))
  // Processes inside the pid namespace may have the same numbers.
  const reached = [...said.matchAll(/^reached (\d+)$/gm)].map((match) => Number(match[1]))
  assert.deepEqual(
    reached.filter((pid) => pid > own + 10),
    [],
  )
  assert.equal(await shell('ls /proc || true'), "ls: cannot access '/proc': No such file or directory")
})

test('a compute reaches no port of this machine, and listens on none', async () => {
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const api = new URL(neap.ready.api_url).port
  for (const target of [port, api, neap.ready.proxy_port])
    assert.match(
      await shell(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/${target} && echo reached' || true`),
      /unreachable|refused/,
    )
  const { pid } = (await computeOf(neap, place)) ?? {}
  assert.match(readFileSync(`/proc/${pid}/net/dev`, 'utf8'), /^ *lo:/m)
  assert.doesNotMatch(readFileSync(`/proc/${pid}/net/dev`, 'utf8'), /^ *e\w+:/m)
  assert.deepEqual((await code.query('show listen_addresses')).rows, [{ listen_addresses: '' }])
})

test('a compute cannot replace its socket', async () => {
  const { socket_dir = '' } = (await computeOf(neap, place)) ?? {}
  const socket = join(socket_dir, '.s.PGSQL.5432')
  assert.match(await shell(`mv ${socket} ${socket}.old || true`), /Permission denied|Read-only file system/)
  assert.match(await shell(`ln -sfn /tmp ${socket_dir}/link || true`), /Permission denied|Read-only file system/)
  assert.deepEqual(readdirSync(socket_dir).sort(), ['.s.PGSQL.5432', '.s.PGSQL.5432.lock'])
})

test('a compute cannot take a lock of Neap', async () => {
  const home = dirname(
    (await code.query<{ d: string }>(`select current_setting('data_directory') as d`)).rows[0]?.d ?? '',
  )
  assert.match(await shell(`exec 9< ${home}/effect.lock && flock 9 || true`), /No such file|Permission denied/)
})

test('the number of processes of a compute is limited', async () => {
  const said = await shell('i=0; while [ $i -lt 3000 ]; do sleep 5 & i=$((i+1)); done; true')
  assert.match(said, /[Ff]ork|Resource temporarily unavailable/)
  assert.deepEqual(await query(neap, place.uri, 'select one from kept'), [{ one: 1 }])
})

test('a compute cannot create a namespace, mount, trace a process or dump core', async () => {
  for (const command of ['unshare -U true', 'unshare -m true', 'mount -t tmpfs x /tmp', 'nsenter -t 1 -m true'])
    assert.match(
      await shell(`${command} && echo done || true`),
      /not permitted|No such file|cannot open|must be superuser/,
      command,
    )
  assert.equal(await shell('ulimit -c'), '0')
})
