import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readState, updateState } from './data_dir.ts'

test('a state file that a power cut left empty is made anew', (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'neap-state-'))
  t.after(() => rmSync(dataDir, { recursive: true }))
  writeFileSync(join(dataDir, 'state.json'), '')
  assert.equal(readState(dataDir).layout, 2)
  updateState(dataDir, { apiPort: 7070 })
  assert.equal(readState(dataDir).apiPort, 7070)
})
