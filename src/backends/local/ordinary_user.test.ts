import { equal } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { accessSync, chownSync, constants, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const NOBODY = 65534
/** Those that touch who owns what. */
const STORIES = '/starts, stops|is set up|killed|adopts|resting parent|under writes|leaves/'

/** Why another user could not run these tests, if so. */
function obstacle(): string | false {
  if (process.getuid?.() !== 0) return 'everything here runs as an ordinary user already'
  accessSync(process.execPath, constants.X_OK)
  for (const file of [process.execPath, fileURLToPath(import.meta.url)]) {
    for (let path = dirname(file); path !== dirname(path); path = dirname(path)) {
      if ((statSync(path).mode & 0o001) === 0) return `other users cannot reach ${path}`
    }
  }
  return false
}

test('all of it works for an ordinary user', { skip: obstacle() }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'neap-ordinary-'))
  chownSync(directory, NOBODY, NOBODY)
  const files = ['local.test.ts', 'clone.test.ts'].map((name) => fileURLToPath(new URL(name, import.meta.url)))
  const runner = spawn(process.execPath, ['--test', '--test-reporter=tap', '--test-name-pattern', STORIES, ...files], {
    uid: NOBODY,
    gid: NOBODY,
    cwd: directory,
    env: { PATH: process.env['PATH'], TMPDIR: directory },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [runner.stdout, runner.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const code = await new Promise((resolve) => runner.once('close', resolve))
  equal(code, 0, output)
  rmSync(directory, { recursive: true })
})
