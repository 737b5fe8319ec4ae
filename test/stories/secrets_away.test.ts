import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { envOf, leaveNothing, type Neap, neapRun, newDataDir, run, startNeap } from '../neap.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import { branchOff, firstPlace, operationsOf, type Place, suspend } from '../project.ts'

/* Parts that miss a rotation recover; a lost key, or a catalog of another point in time, costs no data. */

const PROXIES = 2

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_PROXIES: String(PROXIES) } })
  place = await firstPlace(neap)
  await query(neap, place.uri, 'create table kept as select generate_series(1, 100) n')
})
after(() => neap?.stop())

const environment = () => envOf(neap.ready.data_dir)
const kept = (of: Place) => query(neap, of.uri, 'select count(*)::int from kept')

async function secrets(...args: string[]): Promise<void> {
  const { code, stderr } = await neapRun(['secrets', ...args], environment())
  assert.equal(code, 0, stderr)
}

const LISTENING = `from pg_stat_activity where application_name like 'neap keys %'`

test('parts that missed a rotation log in to the catalog again after their sessions ended', async () => {
  const count = async () => (await catalogQuery<{ count: number }>(neap, `select count(*)::int ${LISTENING}`))[0]?.count
  const all = 3 + PROXIES
  // The second proxy starts after the first is ready, and a part that loses the catalog during its start is restarted.
  const log = join(neap.ready.data_dir, 'parts/proxy-2.log')
  await until('the second proxy', () => existsSync(log) && readFileSync(log, 'utf8').includes('"msg":"ready"'))
  await until('all parts', async () => (await count()) === all)
  const frozen = [neap.part('worker'), ...neap.parts('proxy')] as number[]
  for (const pid of frozen) process.kill(pid, 'SIGSTOP')
  try {
    await catalogQuery(
      neap,
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'neap_proxy' or pid in
         (select pid ${LISTENING} and application_name like '% worker %')`,
    )
    await secrets('rotate')
  } finally {
    for (const pid of frozen) process.kill(pid, 'SIGCONT')
  }
  await until('the sessions of all parts', async () => (await count()) === all)
  assert.deepEqual([neap.part('worker'), ...neap.parts('proxy')], frozen)
  await suspend(neap, place)
  assert.deepEqual(await kept(place), [{ count: 100 }])
})

test('a catalog from before a rotation is refused with the new key, and left unchanged', async () => {
  const dataDir = neap.ready.data_dir
  await neap.stop({ keep: true })
  const earlier = join(dataDir, 'earlier')
  // cp keeps owners, which Node's own copy does not.
  const copy = (from: string, to: string) => run('cp', ['-a', from, to])
  mkdirSync(earlier)
  for (const name of ['catalog', 'secret.key']) await copy(join(dataDir, name), earlier)
  const note = readFileSync(join(earlier, 'catalog/password_of'), 'utf8')
  neap = await startNeap({ dataDir })
  await secrets('rotate')
  await suspend(neap, place)
  await neap.stop({ keep: true })
  const restore = async (name: string) => {
    rmSync(join(dataDir, name), { recursive: true })
    await copy(join(earlier, name), dataDir)
  }
  await restore('catalog')
  const { code, stderr } = await neapRun(['up', '--api-port', '0', '--proxy-port', '0'], envOf(dataDir))
  assert.equal(code, 1)
  assert.match(stderr, /secret.key is not the one that .* was made with/)
  assert.equal(readFileSync(join(dataDir, 'catalog/password_of'), 'utf8'), note)
  await restore('secret.key')
  neap = await startNeap({ dataDir })
  rmSync(earlier, { recursive: true })
  assert.equal(neap.ready.connection_uri, place.uri)
})

test('the key of another Neap is reported as such', async () => {
  const file = join(neap.ready.data_dir, 'other.key')
  writeFileSync(file, Buffer.alloc(32, 1), { mode: 0o600 })
  for (const args of [['secrets'], ['secrets', 'rotate']]) {
    const { code, stderr } = await neapRun(args, { ...environment(), NEAP_SECRET_FILE: file })
    assert.equal(code, 1)
    assert.match(stderr, /^neap: The key in .*other.key does not open the catalog of/)
  }
})

test("a lost key beside an operator's catalog is replaced only on request", async (t) => {
  const dataDir = newDataDir()
  t.after(() => leaveNothing(dataDir))
  mkdirSync(join(dataDir, 'branches'))
  const env = envOf(dataDir, { NEAP_CATALOG_URL: 'postgresql://127.0.0.1:1/neap' })
  const { code, stderr } = await neapRun(['up', '--api-port', '0', '--proxy-port', '0'], env)
  assert.equal(code, 1)
  assert.match(stderr, /is missing: put it back from a backup.*replace-lost-key/)
  assert.equal((await neapRun(['secrets', 'replace-lost-key', '--yes'], env)).code, 0)
})

test('replacing a lost key deletes no project with a failed operation', { timeout: 120_000 }, async () => {
  const dataDir = neap.ready.data_dir
  const child = await branchOff(neap, place)
  assert.deepEqual(await kept(child), [{ count: 100 }])
  await kill(...postmastersOf(dataDir).flatMap(({ command, pid }) => (command.includes(child.branch_id) ? [pid] : [])))
  await until('an operation that failed', async () =>
    (await operationsOf(neap, place)).some(({ status }) => status === 'failed'),
  )
  await neap.stop({ keep: true })
  rmSync(join(dataDir, 'secret.key'))
  await secrets('replace-lost-key', '--yes')
  neap = await startNeap({ dataDir })
  assert.ok(neap.ready.api_key)
  assert.equal(neap.ready.project_id, place.project_id)
  assert.deepEqual([await kept(place), await kept(child)], [[{ count: 100 }], [{ count: 100 }]])
})
