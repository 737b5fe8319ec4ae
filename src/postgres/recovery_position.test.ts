import { equal } from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { writtenPosition } from './recovery_position.ts'
import { segmentPosition } from './wal.ts'

const SEGMENT_BYTES = 2 ** 24

let base: string
before(() => {
  base = mkdtempSync(join(tmpdir(), 'neap-recovery-'))
})
after(() => rmSync(base, { recursive: true }))

const nameOf = (number: number): string => `0000000100000000${number.toString(16).toUpperCase().padStart(8, '0')}`

/** Makes a segment whose first page says that it is this one, or an earlier one that was renamed for use. */
function makeSegment(wal: string, number: number, page = number): void {
  const header = Buffer.alloc(24)
  header.writeBigUInt64LE(BigInt(segmentPosition(nameOf(page))), 8)
  writeFileSync(join(wal, nameOf(number)), header)
}

function makeWal(name: string): { pgdata: string; wal: string } {
  const pgdata = join(base, name)
  const wal = join(pgdata, 'pg_wal')
  mkdirSync(wal, { recursive: true })
  for (const number of [3, 4, 5]) makeSegment(wal, number)
  makeSegment(wal, 6, 1)
  return { pgdata, wal }
}

test('the written WAL ends before segments that are prepared for use', () => {
  const { pgdata } = makeWal('some')
  equal(writtenPosition(pgdata, nameOf(3)), segmentPosition(nameOf(5)) + SEGMENT_BYTES)
})

test('a directory that code in a compute has filled is not read to its end', () => {
  const { pgdata, wal } = makeWal('many')
  for (let count = 0; count < 2 ** 15; count++) writeFileSync(join(wal, `name ${count}`), '')
  equal(writtenPosition(pgdata, nameOf(3)), segmentPosition(nameOf(3)) + SEGMENT_BYTES)
})
