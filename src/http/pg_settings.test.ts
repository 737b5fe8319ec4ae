import { doesNotThrow, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { requireSafePgSettings } from './pg_settings.ts'

test('what names files, commands or libraries is refused by name, what tunes queries is not', () => {
  doesNotThrow(() => requireSafePgSettings({ work_mem: '8MB', Statement_Timeout: '5s' }))
  doesNotThrow(() => requireSafePgSettings())
  throws(
    () =>
      requireSafePgSettings({ work_mem: '8MB', archive_command: 'id', shared_preload_libraries: 'x', fsync: 'off' }),
    /archive_command, shared_preload_libraries, fsync\.$/,
  )
})
