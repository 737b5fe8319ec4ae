import { equal } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

/*
 * A process that has as many files open as it may: Node then makes a child without streams and reports the error by an
 * event, which ends the process unless something listens.
 */

const HOST = import.meta.dirname

/** Runs code in a process that has used up its descriptors. Returns what it wrote, or how it ended. */
function withoutDescriptors(code: string): string {
  const program = `
    import { closeSync, openSync } from 'node:fs'
    import { once } from 'node:events'
    import { spawnEffect } from '${join(HOST, 'effect.ts')}'
    import { forkEffect } from '${join(HOST, 'spawner.ts')}'
    import { runTool } from '${join(HOST, '../storage/image/tool.ts')}'
    const opened = []
    try {
      for (;;) opened.push(openSync('/dev/null', 'r'))
    } catch {}
    ${code}`
  const shell = 'ulimit -n 64 && exec "$0" --input-type=module-typescript --eval "$1"'
  const { status, stdout, stderr } = spawnSync('sh', ['-c', shell, process.execPath, program], { encoding: 'utf8' })
  return status === 0 ? stdout : `it ended with code ${status}: ${stderr}`
}

test('an effect that becomes another program reports the lack of descriptors', () => {
  const code = `
    const child = spawnEffect(['wait', '/nowhere', '0'], 1)
    child.stdin?.end('input')
    const [error] = await once(child, 'error')
    process.stdout.write(error.code)`
  equal(withoutDescriptors(code), 'EMFILE')
})

test('an effect fails for the lack of descriptors, and the next one runs once there are some', () => {
  const code = `
    const effect = forkEffect(['wait', '/nowhere', '0'])
    effect.tell('input')
    await effect.ended.catch((error) => process.stdout.write(error.code + ' '))
    opened.forEach(closeSync)
    process.stdout.write(String((await forkEffect(['wait', '/nowhere', '0']).ended).code))`
  equal(withoutDescriptors(code), 'EMFILE 82')
})

test('a tool of the system fails for the lack of descriptors', () => {
  const code = `await runTool('true', []).catch((error) => process.stdout.write(error.code))`
  equal(withoutDescriptors(code), 'EMFILE')
})
