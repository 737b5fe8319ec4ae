import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { reasonIn } from './pgbackrest.ts'

test('an error is said with the lines that go on with it, and without hints', () => {
  const pushed = [
    'ERROR: [104]: archive-push command encountered error(s):',
    "       repo1: [FileOpenError] unable to open file '/r/archive' for write: [28] No space left on device",
    'ERROR: [055]: raised from remote: unable to load info file',
    '       HINT: backup.info cannot be opened and is required to perform a backup.',
    '       HINT: has a stanza-create been performed?',
    '',
  ].join('\n')
  equal(
    reasonIn(pushed),
    "archive-push command encountered error(s): repo1: [FileOpenError] unable to open file '/r/archive' for write: " +
      '[28] No space left on device; raised from remote: unable to load info file',
  )
  equal(reasonIn('WARN: something\n'), '')
})
