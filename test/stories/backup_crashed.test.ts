import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { peer } from '../clients/peers.ts'
import { query } from '../clients.ts'
import { envOf, type Neap, neapRun, newDataDir, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { computeOf, endpointOf, firstPlace } from '../project.ts'

/* The backup of a branch whose compute crashed, and which no client wakes. */

const PROGRAM = { NEAP_PGBACKREST: peer('pgbackrest/pgbackrest') }

let neap: Neap
let elsewhere: string

before(async () => {
  elsewhere = mkdtempSync(join(tmpdir(), 'neap-elsewhere-'))
  neap = await startNeap({ env: PROGRAM })
})

after(async () => {
  await neap?.stop()
  rmSync(elsewhere, { recursive: true, force: true })
})

test('a branch whose compute crashed is recovered and backed up, and restored from there', async () => {
  const place = await firstPlace(neap)
  await query(neap, place.uri, 'create table kept as select g as id from generate_series(1, 5000) g')
  await kill((await computeOf(neap, place))?.pid)
  await until('the crash is known', async () => (await endpointOf(neap, place)).current_state === 'idle')
  const repository = join(elsewhere, 'repository')
  const init = await neapRun(['backup', 'init', repository], envOf(neap.ready.data_dir, PROGRAM))
  assert.equal(init.code, 0, init.stderr)
  const ran = await neapRun(['backup', 'run'], envOf(neap.ready.data_dir, PROGRAM))
  assert.equal(ran.code, 0, ran.stdout + ran.stderr)

  const dataDir = newDataDir()
  const env = envOf(dataDir, { ...PROGRAM, NEAP_BACKUP_PASSPHRASE: init.stdout.trim() })
  const restored = await neapRun(['restore', '--from', repository], env)
  assert.equal(restored.code, 0, restored.stderr)
  await neap.stop()
  neap = await startNeap({ dataDir, env: PROGRAM })
  assert.deepEqual(await query(neap, place.uri, 'select count(*)::int, sum(id)::int from kept'), [
    { count: 5000, sum: 12_502_500 },
  ])
})
