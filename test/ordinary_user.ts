/** Runs test files again as an unprivileged user, when the tests run as root. */
import { equal } from 'node:assert/strict'
import { spawn, type SpawnOptions } from 'node:child_process'
import { accessSync, chownSync, constants, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const NOBODY = 65534

/** For `skip`: why another user cannot run these tests. Returns false when it can. */
export function withoutOrdinaryUser(): string | false {
  if (process.getuid?.() !== 0) return 'everything here runs as an ordinary user already'
  accessSync(process.execPath, constants.X_OK)
  for (const file of [process.execPath, fileURLToPath(import.meta.url)]) {
    for (let path = dirname(file); path !== dirname(path); path = dirname(path)) {
      if ((statSync(path).mode & 0o001) === 0) return `other users cannot reach ${path}`
    }
  }
  return false
}

/**
 * Errors: AssertionError with the output of the tests, when one of them fails.
 * @param pattern selects tests by name; all when undefined
 * @param env environment variables in addition to those that every user has
 */
export async function testAsOrdinaryUser(
  files: readonly string[],
  pattern?: string,
  env: NodeJS.ProcessEnv = {},
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'neap-ordinary-'))
  chownSync(directory, NOBODY, NOBODY)
  const chosen = pattern === undefined ? [] : ['--test-name-pattern', pattern]
  await testHere([...chosen, ...files], {
    uid: NOBODY,
    gid: NOBODY,
    cwd: directory,
    env: { PATH: process.env['PATH'], TMPDIR: directory, HOME: directory, ...env },
  })
  rmSync(directory, { recursive: true })
}

/**
 * Runs test files in a separate process. Errors: AssertionError with the output of the tests, when one of them fails.
 */
export async function testHere(args: readonly string[], options: SpawnOptions = {}): Promise<void> {
  const stdio: ['ignore', 'pipe', 'pipe'] = ['ignore', 'pipe', 'pipe']
  const runner = spawn(process.execPath, ['--test', '--test-reporter=tap', ...args], { ...options, stdio })
  let output = ''
  for (const stream of [runner.stdout, runner.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const code = await new Promise((resolve) => runner.once('close', resolve))
  equal(code, 0, output)
}
