import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { deleteBranchData, findStoredBranch } from '../../src/catalog/branch.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { sql } from '../../src/catalog/sql.ts'
import { giveUid, recordUids } from '../../src/catalog/store_uid.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newBranch, newProject } from './operations.ts'

const RANGE = { first: 5_001, last: 5_008 }

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

async function newStores(catalog: Catalog, count: number): Promise<string[]> {
  const project = await newProject(catalog)
  const ids = []
  for (let i = 0; i < count; i++) ids.push((await newBranch(catalog, project)).id)
  return ids
}

const given = async (catalog: Catalog): Promise<Record<string, number>> => {
  const rows = await catalog.rows<{ store_id: string; uid: number }>(sql`select store_id, uid from store_uid`)
  return Object.fromEntries(rows.map(({ store_id, uid }) => [store_id, uid]))
}

test('stores that ask at once have a uid each, until all of the range are given', () =>
  catalogs.with(async ({ catalog }) => {
    const ids = await newStores(catalog, 9)
    const uids = await Promise.all(ids.map((id) => giveUid(catalog, HOST, id, RANGE)))
    const sorted = uids.filter((uid) => uid !== undefined).sort((a, b) => a - b)
    assert.deepEqual(sorted, [5_001, 5_002, 5_003, 5_004, 5_005, 5_006, 5_007, 5_008])
    const [has = ''] = ids.filter((_, index) => uids[index] !== undefined)
    assert.equal(await giveUid(catalog, HOST, has, RANGE), (await given(catalog))[has])
    assert.equal((await findStoredBranch(catalog, has))?.store_uid, (await given(catalog))[has])

    const [lacks = ''] = ids.filter((_, index) => uids[index] === undefined)
    const uid = (await given(catalog))[has]
    await catalog.transaction((tx) => deleteBranchData(tx, has))
    assert.equal(await giveUid(catalog, HOST, lacks, RANGE), uid)
  }))

test('uids found on the disk are recorded once, and those outside of the range are not', () =>
  catalogs.with(async ({ catalog }) => {
    const [one = '', same = '', outside = '', empty = ''] = await newStores(catalog, 4)
    const found = new Map([
      [one, 5_003],
      [same, 5_003],
      [outside, 5_000],
      ['br-unknown', 5_004],
    ])
    const record = (ids = [...found.keys(), empty]) =>
      recordUids(
        catalog,
        HOST,
        RANGE,
        (visit) => visit(ids),
        async (id) => found.get(id),
      )
    await record()
    assert.deepEqual(await given(catalog), { [one]: 5_003, 'br-unknown': 5_004 })
    // The directory of an unknown store keeps its uid from others for as long as it is there.
    for (const id of [same, outside, empty]) await giveUid(catalog, HOST, id, { first: 5_003, last: 5_007 })
    await record()
    assert.deepEqual(
      Object.values(await given(catalog)).sort((a, b) => a - b),
      [5_003, 5_004, 5_005, 5_006, 5_007],
    )
    await record([one, same])
    assert.equal((await given(catalog))['br-unknown'], undefined)
    assert.equal(Object.keys(await given(catalog)).length, 4)
    // Another range: all are given anew.
    const other = { first: 6_001, last: 6_008 }
    await recordUids(
      catalog,
      HOST,
      other,
      (visit) => visit([one, same]),
      async (id) => found.get(id),
    )
    assert.deepEqual(await given(catalog), {})
  }))
