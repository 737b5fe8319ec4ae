import assert from 'node:assert/strict'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query } from '../clients.ts'
import { dataDirOn, start, stop, storage } from '../image_disks.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, suspend } from '../project.ts'
import { withoutFilesystems } from '../small_disk.ts'

/* A branch whose files have many extents: clones of it take long, and are made ahead. */

const skip = withoutFilesystems('xfs', 'ext4')
const ROWS = 96_000

test(
  'a branch takes the clone that was made ahead: of the latest base, and of its parent at rest',
  { skip },
  async () => {
    const dataDir = dataDirOn('ext4', 'spares', 4096)
    await storage(dataDir, 'init', '--size', '3G')
    const neap = await start(dataDir, { env: { NEAP_HISTORY_MB: '32' } })
    const main = await firstPlace(neap)
    const home = join(dataDir, 'branches', main.branch_id)
    const controlOf = (directory: string) => join(directory, 'pgdata/global/pg_control')
    const bases = () => (existsSync(join(home, 'bases')) ? readdirSync(join(home, 'bases')) : []).map(Number)
    const latestSpare = () => join(home, 'bases', String(Math.max(...bases())), 'spare')
    const run = (statement: string) => query(neap, main.uri, statement)

    await run('create table filler (text text)')
    const hasSpare = () => existsSync(controlOf(latestSpare()))
    const write = async () => {
      await run(`insert into filler select repeat(md5(n::text), 20) from generate_series(1, 12000) n`)
      await run('truncate filler')
    }
    /** Writes all that there is to the disk, and then more until there is such a base. */
    const writeUntil = async (what: string, isThere: () => boolean) => {
      await suspend(neap, main)
      await until(what, async () => {
        await write()
        return isThere()
      })
    }
    await run('create table item (number int, text text) with (fillfactor = 50)')
    await run(`insert into item select n, repeat('x', 1000) from generate_series(1, ${ROWS}) n`)
    // A first scan writes to each page.
    await run('vacuum item')
    // The first may have been begun before.
    await writeUntil('two bases', () => bases().length >= 3)
    assert.equal(hasSpare(), false)
    // Many pages, each of which lies apart from those of that base now.
    await run('update item set number = -number where number % 8 = 0')
    await writeUntil('a clone of a base', hasSpare)
    // Little WAL lies between the next one and the data.
    await suspend(neap, main)
    const earlier = Math.max(...bases())
    for (let turn = 0; turn < 5; turn++) await write()
    await until('a clone of the next base', () => Math.max(...bases()) > earlier && hasSpare())
    const inodeOf = (directory: string) => statSync(join(directory, 'pgdata/PG_VERSION')).ino
    const sum = 'select sum(number)::int from item where number < 0'
    const [before] = await run(sum)
    const ofBase = inodeOf(latestSpare())
    const sibling = await branchOff(neap, main)
    assert.equal(inodeOf(join(dataDir, 'branches', sibling.branch_id)), ofBase)
    assert.deepEqual(await query(neap, sibling.uri, sum), [before])

    const spare = controlOf(join(home, 'spare'))
    assert.equal(existsSync(spare), false)

    await suspend(neap, main)
    await until('a clone of the branch at rest', () => existsSync(spare))
    const ofData = inodeOf(join(home, 'spare'))
    const child = await branchOff(neap, main)
    assert.equal(inodeOf(join(dataDir, 'branches', child.branch_id)), ofData)
    await query(neap, child.uri, 'delete from item')
    assert.deepEqual(await run(sum), [before])

    await until('none beside a running branch', () => !existsSync(join(home, 'spare')))
    await suspend(neap, main)
    await until('the next one', () => existsSync(spare))
    await stop(neap)
  },
)
