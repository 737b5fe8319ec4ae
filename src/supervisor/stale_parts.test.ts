import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import { noteProcess } from '../host/process_start.ts'
import { endStaleParts } from './stale_parts.ts'

/** A process whose command line is that of a part. */
async function partLike(t: TestContext): Promise<ChildProcess & { pid: number }> {
  const child = spawn('sleep', ['60'], { argv0: 'src/main.ts' })
  await once(child, 'spawn')
  t.after(() => child.kill('SIGKILL'))
  return child as ChildProcess & { pid: number }
}

test('a part that outlived its supervisor is ended, a frozen one too', async (t) => {
  const part = await partLike(t)
  part.kill('SIGSTOP')
  const ended = once(part, 'exit')
  await endStaleParts(undefined, [noteProcess(part.pid)])
  assert.deepEqual(await ended, [null, 'SIGKILL'])
})

test('a process that has got the pid of a part since is left alone', async (t) => {
  const [stranger, last] = [await partLike(t), await partLike(t)]
  const { pid, began } = noteProcess(stranger.pid)
  const ended = once(last, 'exit')
  await endStaleParts(undefined, [
    { pid, began: `${began}0` },
    { pid, began: null },
    { pid, began: `another-boot ${began?.split(' ')[1]}` },
    noteProcess(last.pid),
  ])
  await ended
  assert.equal(stranger.exitCode ?? stranger.signalCode, null)
  assert.ok(stranger.kill(0))
})
