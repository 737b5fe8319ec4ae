import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query } from '../clients.ts'
import { dataDirOn, start, stop, storage } from '../image_disks.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, suspend } from '../project.ts'
import { withoutFilesystems } from '../small_disk.ts'

/* A branch with very many files: clones of it take long, as of one with files of many extents. */

const skip = withoutFilesystems('xfs', 'ext4')
/** Each has four files. */
const TABLES = 6_000
/** As many are locked by one transaction. */
const AT_ONCE = 500

test('a branch whose clones take long has one made ahead, which the next branch of it takes', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'spares', 6144)
  await storage(dataDir, 'init', '--size', '5G')
  const neap = await start(dataDir, { env: { NEAP_HISTORY_MB: '32' } })
  const main = await firstPlace(neap)
  await query(neap, main.uri, 'create table item as select 1 as number')
  for (let first = 0; first < TABLES; first += AT_ONCE)
    await query(
      neap,
      main.uri,
      `do $$ begin for n in ${first}..${first + AT_ONCE - 1} loop
         execute format('create table filler_%s (id int primary key, text text)', n);
       end loop; end $$`,
    )
  const home = join(dataDir, 'branches', main.branch_id)
  const controlOf = (directory: string) => join(directory, 'pgdata/global/pg_control')
  const spare = controlOf(join(home, 'spare'))
  await until('its latest base has one', () => existsSync(controlOf(join(home, 'bases/1/spare'))))
  assert.equal(existsSync(spare), false)

  await suspend(neap, main)
  await until('it has one at rest', () => existsSync(spare))
  const { ino } = statSync(spare)
  const child = await branchOff(neap, main)
  assert.equal(statSync(controlOf(join(dataDir, 'branches', child.branch_id))).ino, ino)
  await query(neap, child.uri, 'insert into item values (2)')
  const numbers = 'select number from item order by 1'
  assert.deepEqual(await query(neap, child.uri, numbers), [{ number: 1 }, { number: 2 }])

  await until('the next one is made', () => existsSync(spare))
  assert.deepEqual(await query(neap, main.uri, numbers), [{ number: 1 }])
  await until('it is removed while the branch runs', () => !existsSync(join(home, 'spare')))
  await stop(neap)
})
