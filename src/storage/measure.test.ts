import { deepEqual } from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { MAX_BYTES, measureDataDirectory } from './measure.ts'

let base: string
before(() => {
  base = mkdtempSync(join(tmpdir(), 'neap-measure-'))
})
after(() => rmSync(base, { recursive: true }))

/** Makes directories with one file of a thousand bytes each. */
function makeFiles(...directories: readonly string[]): void {
  for (const directory of directories) {
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, 'file'), Buffer.alloc(1000))
  }
}

test('a store is its files, of which WAL and temporary ones are no data', async () => {
  const pgdata = join(base, 'whole')
  makeFiles(...['global', 'base/1', 'pg_wal/archive_status', 'base/pgsql_tmp/set'].map((name) => join(pgdata, name)))
  deepEqual(await measureDataDirectory(pgdata), { bytes: 4000, logicalBytes: 2000, isWhole: true })
})

test('no link leads out of a store, whatever code in its compute has put in its place', async () => {
  const [pgdata, other] = [join(base, 'linked'), join(base, 'other')]
  makeFiles(other, join(pgdata, 'global'), join(pgdata, 'base'))
  for (const name of ['pg_wal', 'base/1', 'base/pgsql_tmp', 'global/1262']) symlinkSync(other, join(pgdata, name))
  deepEqual(await measureDataDirectory(pgdata), { bytes: 2000, logicalBytes: 2000, isWhole: true })
})

test('files without blocks count no more than a number of the catalog', async () => {
  const pgdata = join(base, 'sparse')
  makeFiles(join(pgdata, 'base'))
  for (let number = 1; number <= 300; number++) {
    const path = join(pgdata, 'base', String(number))
    writeFileSync(path, '')
    truncateSync(path, 4 * 2 ** 40)
  }
  deepEqual(await measureDataDirectory(pgdata), { bytes: MAX_BYTES, logicalBytes: MAX_BYTES, isWhole: true })
})

test('directories that are nested without end are not counted to the end', async () => {
  const pgdata = join(base, 'deep')
  makeFiles(join(pgdata, 'base'), join(pgdata, ...Array.from({ length: 100 }, () => 'd')))
  deepEqual(await measureDataDirectory(pgdata), { bytes: 1000, logicalBytes: 1000, isWhole: false })
})
