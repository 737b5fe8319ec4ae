import { rejects } from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Repository } from './repository.ts'
import { takeBackup } from './stanza.ts'

/* Files that code in a compute may have made. */

const base = mkdtempSync(join(tmpdir(), 'neap-stanza-'))
after(() => rmSync(base, { recursive: true }))

const repository = {
  series: 'series',
  run: () => Promise.reject(new Error('pgBackRest was run')),
} as unknown as Repository

/** A data directory with a file of so many bytes, which has no blocks. */
function sparse(name: string, bytes: number): Promise<unknown> {
  const pgdata = join(base, String(bytes))
  mkdirSync(join(pgdata, 'base'), { recursive: true })
  writeFileSync(join(pgdata, name), '')
  truncateSync(join(pgdata, name), bytes)
  const times = { started_at: '2026-01-01T00:00:00Z', made_at: '2026-01-01T00:00:00Z' }
  const source = { pgdata, ...times, lsn: '0/3000028', segment: '000000010000000000000003' }
  return takeBackup(repository, 'store', source, () => true)
}

test('a file without blocks that is larger than the disk is not read by pgBackRest', () =>
  rejects(sparse('base/1', 15 * 2 ** 40), /larger than its disk/))

test('a large backup_label is not read', () => rejects(sparse('backup_label', 2 ** 30), /has more than 4096 bytes/))

test('other files are left to pgBackRest', () => rejects(sparse('base/1', 2 ** 20), /pgBackRest was run/))
