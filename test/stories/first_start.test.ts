import assert from 'node:assert/strict'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeClient } from '../../src/client.ts'
import { query } from '../clients.ts'
import { envOf, leaveNothing, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { kill, postmastersOf, processesOf, until } from '../processes.ts'

/* The very first start is killed, with all that it has begun. The next one must be as good as a first. */

const moments: Record<string, (dataDir: string) => boolean> = {
  'while the programs of Postgres are copied': (dataDir) => globSync(join(dataDir, 'pg/*.making')).length > 0,
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
  const todo = name.startsWith('when its key') ? 'failed once on a busy machine, for a reason not found yet' : false
  test(`kill -9 of the first start ${name}`, { todo }, async (t) => {
    const dataDir = newDataDir()
    t.after(() => leaveNothing(dataDir))
    const child = spawnNeap(['up', '--json', '--api-port', '0', '--proxy-port', '0'], envOf(dataDir))
    const ended = once(child, 'exit')
    await until(name, () => isThere(dataDir))
    // What runs as another user is a database or makes one: that goes on, as it would.
    await kill(
      ...processesOf(dataDir)
        .filter(({ command }) => command.includes('/main.ts'))
        .map(({ pid }) => pid),
    )
    await ended

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
  })
}
