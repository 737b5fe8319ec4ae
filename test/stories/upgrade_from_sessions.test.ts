import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { openCatalog } from '../../src/catalog/catalog.ts'
import { catalogQuery, catalogUrl } from '../admin.ts'
import { query } from '../clients.ts'
import { checkOut, withoutCommit } from '../earlier_neap.ts'
import { leaveNothing, newDataDir, startNeap } from '../neap.ts'
import { kill, postmastersOf, processesOf, until } from '../processes.ts'
import { branchOff, computeOf, firstPlace, settled, suspend } from '../project.ts'
import { describeSchema, SCHEMA_FILE } from '../schema.ts'

/*
 * This version serves a data directory of the last Neap whose catalog recorded no checksums of its migrations: it ends
 * up with the tables of a new one, its computes run on, and what is past its retention goes.
 */

const EARLIER = '1e72c1e5cfb2f6c01b0db5b63eca67e5dc19537c'
const LAST_MIGRATION = '0027_persons.sql'

test(
  'a killed Neap without checksums is upgraded to the tables of a new one, and its computes are adopted',
  { todo: withoutCommit(EARLIER) },
  async (t) => {
    const earlier = checkOut(EARLIER, {})
    t.after(() => earlier.remove())
    const dataDir = newDataDir()
    t.after(async () => {
      await kill(...processesOf(dataDir).map(({ pid }) => pid))
      await leaveNothing(dataDir)
    })
    const before = await startNeap({ dataDir, program: earlier.program })
    const running = await firstPlace(before)
    await query(before, running.uri, 'create table kept as select generate_series(1, 5000) as number')
    const resting = await branchOff(before, running)
    await query(before, resting.uri, 'delete from kept where number > 4000')
    await suspend(before, resting)
    await settled(before, running, 'active')
    const names = await catalogQuery<{ name: string }>(before, 'select max(name) as name from migration')
    assert.deepEqual(names, [{ name: LAST_MIGRATION }])
    const [old] = await catalogQuery<{ id: string }>(
      before,
      `update operation set id = uuidv7(interval '-40 days'), created_at = created_at - interval '40 days',
              finished_at = finished_at - interval '40 days'
        where action = 'create_timeline' and status = 'finished' returning id`,
    )
    assert.ok(old)
    await before.kill()
    const servers = postmastersOf(dataDir).map(({ pid }) => pid)

    const neap = await startNeap({ dataDir })
    const { pid } = (await computeOf(neap, running)) ?? {}
    assert.ok(servers.includes(pid ?? 0), 'its compute is the one that ran')
    const sum = 'select count(*)::int, sum(number)::int from kept'
    assert.deepEqual(await query(neap, running.uri, sum), [{ count: 5000, sum: 12_502_500 }])
    assert.deepEqual(await query(neap, resting.uri, sum), [{ count: 4000, sum: 8_002_000 }])
    await query(neap, (await branchOff(neap, running)).uri, 'insert into kept values (5001)')
    const catalog = openCatalog(await catalogUrl(neap), 1, () => {})
    try {
      assert.equal(await describeSchema(catalog), readFileSync(SCHEMA_FILE, 'utf8'))
    } finally {
      await catalog.close()
    }
    assert.deepEqual(await catalogQuery(neap, 'select name from migration where checksum is null'), [])
    await until('its old operation is removed', async () => {
      const left = await catalogQuery(neap, 'select from operation where id = $1', [old.id])
      return left.length === 0
    })
    await neap.stop({ keep: true })
  },
)
