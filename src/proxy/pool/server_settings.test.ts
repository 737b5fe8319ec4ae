import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { createServerSettings } from './server_settings.ts'

test('a server that reports settings without end is refused, and one that reports the same again is not', () => {
  const settings = createServerSettings(new Map([['TimeZone', 'UTC']]))
  const text = 'x'.repeat(60_000)
  for (let turn = 0; turn < 10; turn++) equal(settings.report('search_path', text), true)
  equal(settings.report('TimeZone', 'Europe/Berlin'), true)
  equal(settings.report('another', text), false)
})
