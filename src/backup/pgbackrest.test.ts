import { equal, rejects } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { kill, until } from '../../test/processes.ts'
import { pgBackRest, reasonIn } from './pgbackrest.ts'

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

test('a call that is ended early has ended its pgBackRest, also one that is frozen', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'neap-pgbackrest-'))
  try {
    const [program, noted] = [join(directory, 'pgbackrest'), join(directory, 'pid')]
    writeFileSync(program, `#!/bin/sh\necho $$ > ${noted}\nkill -STOP $$\n`, { mode: 0o755 })
    const stopping = new AbortController()
    const call = pgBackRest(program, '/dev/null', stopping.signal)(['info'])
    const pid = await until('it runs', () => existsSync(noted) && Number(readFileSync(noted, 'utf8')))
    stopping.abort()
    await rejects(call, { name: 'AbortError' })
    equal(existsSync(`/proc/${pid}`), false)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

const skip = ['/usr/bin/setpriv', '/bin/setpriv'].some((path) => existsSync(path)) ? false : 'not installed: setpriv'

test('pgBackRest ends when its caller is killed', { skip }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'neap-pgbackrest-'))
  try {
    const [program, noted] = [join(directory, 'pgbackrest'), join(directory, 'pid')]
    writeFileSync(program, `#!/bin/sh\necho $$ > ${noted}\nexec sleep 600\n`, { mode: 0o755 })
    const call = `import { pgBackRest } from ${JSON.stringify(import.meta.resolve('./pgbackrest.ts'))}
      await pgBackRest(${JSON.stringify(program)}, '/dev/null')(['info'])`
    const caller = spawn(process.execPath, ['--input-type=module', '-e', call], { stdio: 'inherit' })
    const pid = await until('it runs', () => existsSync(noted) && Number(readFileSync(noted, 'utf8')))
    await kill(caller.pid)
    await until('it has ended', () => !existsSync(`/proc/${pid}`))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})
