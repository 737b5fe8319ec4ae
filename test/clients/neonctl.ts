import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Neap, Ran } from '../neap.ts'

const PINNED = fileURLToPath(import.meta.resolve('neonctl/dist/cli.js'))

/** The public command line, unmodified, with a separate home; it talks to one Neap only. */
export interface Neonctl {
  /** Runs a command with tables as output, and returns its result. */
  run(args: readonly string[], options?: { readonly key?: string }): Promise<Ran>
  /** Runs a command that must succeed, and returns its JSON output. */
  json<T>(...args: readonly string[]): Promise<T>
  /** Runs a command that must succeed, and returns its text output. */
  text(...args: readonly string[]): Promise<string>
  /** Removes its home. */
  leave(): void
}

/**
 * A command line for a Neap: the file `program`, by default the version in Neap's development dependencies. Each run is
 * a separate process without telemetry, colours or questions; `more` adds environment variables for it and for psql.
 */
export function neonctlFor({ ready }: Neap, program = PINNED, more: NodeJS.ProcessEnv = {}): Neonctl {
  const home = mkdtempSync(join(tmpdir(), 'neonctl-'))
  const env = { PATH: process.env['PATH'], HOME: home, CI: 'true', ...more }
  const fixed = ['--api-host', ready.api_url, '--config-dir', home, '--context-file', join(home, '.neon')]

  // In its home, because some commands write to the working directory.
  const ran = (args: readonly string[], key = ready.api_key ?? '') =>
    new Promise<Ran>((resolve) => {
      // Arguments behind `--` are for psql.
      const end = args.includes('--') ? args.indexOf('--') : args.length
      const options = [...fixed, '--api-key', key, '--no-analytics', '--no-color']
      const words = [program, ...args.slice(0, end), ...options, ...args.slice(end)]
      execFile(process.execPath, words, { env, cwd: home }, (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr })
      })
    })
  async function text(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await ran(args)
    assert.equal(code, 0, `neonctl ${args.join(' ')}: ${stderr}${stdout}`)
    return stdout
  }
  return {
    run: (args, { key } = {}) => ran(args, key),
    json: async <T>(...args: readonly string[]) => JSON.parse(await text(...args, '--output', 'json')) as T,
    text,
    leave: () => rmSync(home, { recursive: true, force: true }),
  }
}
