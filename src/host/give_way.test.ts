import { deepEqual, equal, match } from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { NO_PROGRAM, spawnGivingWay } from './give_way.ts'

const GROUP = '/proc/self/autogroup'

/** Runs a program, and returns its exit code and output. */
async function run(program: string, args: readonly string[]): Promise<{ code: unknown; output: string }> {
  const child = spawnGivingWay(program, args, { stdio: 'pipe' })
  const [output, [code]] = await Promise.all([buffer(child.stdout), once(child, 'close') as Promise<unknown[]>])
  return { code, output: output.toString('utf8') }
}

test('a program that gives way is nice, in a session that its caller is not in', async () => {
  const own = existsSync(GROUP) ? readFileSync(GROUP, 'utf8') : undefined
  const { output } = await run('nice', [])
  equal(output.trim(), '5')
  if (own === undefined) return
  match((await run('cat', [GROUP])).output, /nice 5\n$/)
  equal(readFileSync(GROUP, 'utf8'), own, 'its caller is as nice as before')
})

test('the exit code says that there is no such program', async () =>
  deepEqual(await run('/nowhere/program', []), { code: NO_PROGRAM, output: '' }))
