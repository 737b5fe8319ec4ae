import { equal } from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { saysSinceStart } from './logs.ts'

const directory = mkdtempSync(join(tmpdir(), 'neap-logs-'))
after(() => rmSync(directory, { recursive: true }))

test('what a server said counts until the next one starts', () => {
  const log = join(directory, 'postgres.log')
  equal(saysSinceStart(log, /ended/), false)
  const line = (text: string) => `2026-11-26 01:45:41.807 UTC [1] ${text}\n`
  const start = line('LOG:  starting PostgreSQL 18.4')
  writeFileSync(log, start + line('FATAL:  recovery ended'))
  equal(saysSinceStart(log, /recovery ended/), true)
  writeFileSync(log, start, { flag: 'a' })
  equal(saysSinceStart(log, /recovery ended/), false)
})
