import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

test('a command that prints often to a pipe warns of no leak', () => {
  const program = `import { print } from './src/cli/print.ts'
for (let line = 0; line < 20; line++) print(String(line))`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module-typescript', '--eval', program], {
    encoding: 'utf8',
  })
  assert.equal(stdout.split('\n').length, 21)
  assert.equal(stderr, '')
})
