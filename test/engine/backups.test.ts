import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { lockDrills } from '../../src/catalog/backup_drill.ts'
import { sql } from '../../src/catalog/sql.ts'
import { listDueStores, recordBackup, recordPushed } from '../../src/catalog/store_backup.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newBranch, newProject } from './operations.ts'

/* Records of backups by several workers, or by a frozen one. */

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

const SERIES = '0badcafe'
const SEGMENT = '000000010000000000000001'
const RULE = { hostId: HOST, series: SERIES, hours: 24, without: [], limit: 10 }

test('a worker that was frozen in a push has the end of the WAL of a sleeping branch written again', () =>
  catalogs.with(async ({ catalog }) => {
    const { id } = await newBranch(catalog, await newProject(catalog))
    await catalog.rows(sql`update branch set current_state = 'ready' where id = ${id}`)
    const [made_at, lsn] = [new Date().toISOString(), '0/1000000']
    const facts = { label: 'first', started_at: made_at, made_at, lsn, bytes: 1, stored_bytes: 1 }
    await recordBackup(catalog, id, { ...facts, series: SERIES, segment: SEGMENT })
    await catalog.rows(sql`
      update store set state = 'ready', backup_due_at = clock_timestamp() - interval '1 minute' where id = ${id}`)
    const due = async () => (await listDueStores(catalog, 'wal', RULE)).at(0)
    const begun = (await due()) ?? assert.fail('it is not due')
    const push = (end: string) =>
      recordPushed(catalog, { ...begun, series: SERIES }, { segment: SEGMENT, lsn: end, isWhole: true }, 0)

    assert.equal(await push('0/1002000'), true)
    assert.equal(await due(), undefined)
    assert.equal(await push('0/1001000'), false)
    assert.equal((await due())?.backup?.pushed_lsn, null)
  }))

test('of the workers of a host one makes drills at a time', () =>
  catalogs.with(async ({ catalog }) => {
    const [one, other] = [await catalog.session(), await catalog.session()]
    assert.deepEqual([await lockDrills(one, HOST), await lockDrills(other, HOST)], [true, false])
    assert.equal(await lockDrills(other, 'another host'), true)
    await one.end()
    assert.equal(await lockDrills(other, HOST), true)
    await other.end()
  }))
