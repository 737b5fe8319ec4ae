import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeDirectories, readState, updateState } from './data_dir.ts'

test('a state file that a power cut left empty is made anew', (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'neap-state-'))
  t.after(() => rmSync(dataDir, { recursive: true }))
  writeFileSync(join(dataDir, 'state.json'), '')
  assert.equal(readState(dataDir).layout, 2)
  updateState(dataDir, { apiPort: 7070 })
  assert.equal(readState(dataDir).apiPort, 7070)
})

const skip = process.getuid?.() !== 0 && 'computes have users of their own as root only'

test('as root, users of computes can traverse all directories that are made', { skip }, (t) => {
  const base = mkdtempSync(join(tmpdir(), 'neap-directories-'))
  t.after(() => rmSync(base, { recursive: true }))
  makeDirectories(join(base, 'one/other/data'), join(base, 'runtime'))
  for (const path of ['one', 'one/other', 'one/other/data'])
    assert.equal(statSync(join(base, path)).mode & 0o777, 0o711)
})
