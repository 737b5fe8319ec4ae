import { deepEqual, equal } from 'node:assert/strict'
import { chmodSync, lstatSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../../test/local_host.ts'
import { missingFrom, type Wall, wallTable, WALLS } from '../../walls.ts'

const ALL = Object.keys(WALLS) as Wall[]
const notRoot = () => process.getuid?.() !== 0 && 'not root: the directory is remounted read-only instead'

test('this machine has every wall, except identity for an ordinary user', async (t) => {
  const local = freshHost()
  t.after(() => local.dispose())
  await local.storage.prepare(PG_VERSION)
  const missing = missingFrom(await local.computes.walls())
  deepEqual(missing, process.getuid?.() === 0 ? [] : ['identity'])
})

for (const lacks of [ALL.filter((wall) => wall !== 'identity'), ['network'], ['files'], ['processes']] as Wall[][])
  test(`a compute runs without the walls ${lacks.join(', ')}`, async (t) => {
    const local = freshHost({ lacks })
    t.after(() => local.dispose())
    const { storage, computes, next } = local
    await storage.prepare(PG_VERSION)
    const has = await computes.walls()
    deepEqual(
      lacks.filter((wall) => has.includes(wall)),
      [],
    )
    const branch = local.branch('bare')
    await settled(() => storage.create(branch, next()))
    for (let turn = 1; turn <= 2; turn++) {
      const { id, address } = await local.start(branch, next())
      await query(address, 'create table if not exists kept (n int); insert into kept values (1)')
      deepEqual(await query(address, 'select count(*)::int as n from kept'), [{ n: turn }])
      equal((await computes.find(branch))?.id, id)
      equal(lstatSync(join(address.host, '.s.PGSQL.5432')).isSocket(), true)
      await settled(() => computes.stop(branch, next()))
      equal(await computes.find(branch), undefined)
    }
  })

test('sealing restricts a socket directory that its server has made accessible', { skip: notRoot() }, async (t) => {
  const local = freshHost()
  t.after(() => local.dispose())
  const { storage, next } = local
  await storage.prepare(PG_VERSION)
  const branch = local.branch('opened')
  await settled(() => storage.create(branch, next()))
  const { address } = await local.start(branch, next())
  // As the server could while it owned the directory; a start that finds it running seals it again.
  chmodSync(address.host, 0o777)
  await local.start(branch, next())
  const { uid, mode } = lstatSync(address.host)
  deepEqual([uid, mode & 0o777], [0, 0o700])
})

test('a table lists the missing walls', () => {
  equal(wallTable(['ipc'], null, null).split('\n')[1], '  ipc       shared memory and queues of its own')
})
