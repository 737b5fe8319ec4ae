import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { findPgDump } from './pg_dump.ts'

const directory = mkdtempSync(join(tmpdir(), 'neap-pg-dump-'))
after(() => rmSync(directory, { recursive: true }))

function program(name: string, prints: string): string {
  const path = join(directory, name)
  writeFileSync(path, `#!/bin/sh\necho '${prints}'\n`, { mode: 0o755 })
  return path
}

const of15 = program('15', 'pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)')
const of17 = program('17', 'pg_dump (PostgreSQL) 17beta1')
const of18 = program('18', 'pg_dump (PostgreSQL) 18.4')
const other = program('other', 'something else 99')
const nowhere = join(directory, 'nowhere')

test('the pg_dump of the same version is chosen, else the oldest newer one', async () => {
  const all = [nowhere, of18, other, of15, of17]
  assert.deepEqual(await findPgDump(15, all), { path: of15, version: 15 })
  assert.deepEqual(await findPgDump(16, all), { path: of17, version: 17 })
  assert.deepEqual(await findPgDump(18, all), { path: of18, version: 18 })
})

test('an older pg_dump is not chosen', async () => {
  assert.equal(await findPgDump(18, [of15, of17, other, nowhere]), undefined)
  assert.equal(await findPgDump(18, []), undefined)
})
