import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { makeClient } from '../../src/client.ts'
import { groupParents } from '../../src/compute/process/cgroup.ts'
import { defaultRuntimeDir } from '../../src/directories.ts'
import { query } from '../clients.ts'
import { envOf, leaveNothing, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { kill, postmastersOf, processesOf, until } from '../processes.ts'

/* The first start and its child processes are killed. The next start must behave as a first one. */

const moments: Record<string, (dataDir: string) => boolean> = {
  'while the programs of Postgres are copied': (dataDir) => globSync(join(dataDir, 'pg/*.making-*')).length > 0,
  'while the template is made': (dataDir) => globSync(join(dataDir, 'templates/18/making-*/base/1')).length > 0,
  'when its key is stored and not yet shown': (dataDir) => stateOf(dataDir).includes('"isFirstStart": true'),
  'when its project is being made': (dataDir) => stateOf(dataDir).includes('"projectId"'),
  'when its first database runs': (dataDir) => postmastersOf(dataDir).length === 2,
}

const stateOf = (dataDir: string): string =>
  globSync(join(dataDir, 'state.json'))
    .map((file) => readFileSync(file, 'utf8'))
    .join()

for (const [name, isThere] of Object.entries(moments)) {
  test(`kill -9 of the first start ${name}`, async (t) => {
    const { dataDir, ended } = firstStart(t)
    await until(name, () => isThere(dataDir))
    // Processes of other users are databases or create one: they keep running, as they would after a crash.
    await kill(...partsOf(dataDir, /\/main.ts/))
    await ended
    await expectFirstStart(dataDir)
  })
}

test('kill -9 of the supervisor alone while its parts load: they exit', async (t) => {
  const { dataDir, ended } = firstStart(t)
  await until('a part loads', () => partsOf(dataDir, /\/main.ts (api|worker|proxy)/).length > 0)
  await kill(...partsOf(dataDir, /\/main.ts up/))
  await ended
  await until('the parts have ended', () => partsOf(dataDir, /\/main.ts/).length === 0)
  await expectFirstStart(dataDir)
})

test('its directory of sockets and its control groups are gone after the end', async () => {
  const dataDir = newDataDir()
  const neap = await startNeap({ dataDir, env: { NEAP_RUNTIME_DIR: undefined } })
  const places = [defaultRuntimeDir(dataDir), ...groupParents(dataDir).values()]
  assert.ok(places.every((place) => existsSync(place)))
  // As of a server that was killed, whose branch was deleted since.
  const left = join(defaultRuntimeDir(dataDir), 'b999')
  mkdirSync(left)
  const server = createServer().listen(join(left, '.s.PGSQL.5432'))
  await once(server, 'listening')
  writeFileSync(join(left, '.s.PGSQL.5432.lock'), '1\n')
  renameSync(join(left, '.s.PGSQL.5432'), join(left, 'moved'))
  server.close()
  renameSync(join(left, 'moved'), join(left, '.s.PGSQL.5432'))
  assert.equal(await neap.end(), 0)
  assert.deepEqual(
    places.filter((place) => existsSync(place)),
    [],
  )
  await neap.stop()
})

function firstStart(t: TestContext) {
  const dataDir = newDataDir()
  t.after(() => leaveNothing(dataDir))
  const child = spawnNeap(['up', '--json', '--api-port', '0', '--proxy-port', '0'], envOf(dataDir))
  return { dataDir, ended: once(child, 'exit') }
}

const partsOf = (dataDir: string, called: RegExp): number[] =>
  processesOf(dataDir)
    .filter(({ command }) => called.test(command))
    .map(({ pid }) => pid)

async function expectFirstStart(dataDir: string): Promise<void> {
  const neap = await startNeap({ dataDir })
  const { api_key, api_url, connection_uri } = neap.ready
  const call = makeClient({ url: api_url, key: api_key as string })
  assert.deepEqual(
    (await call('GET /api_keys', {})).map((key) => key.name),
    ['first'],
  )
  assert.equal((await call('GET /projects', {})).projects.length, 1)
  assert.deepEqual(await query(neap, connection_uri as string, 'select 1 as one'), [{ one: 1 }])
  assert.deepEqual(globSync(join(dataDir, 'templates/18/making-*')), [])
  await neap.stop()
}
