import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { cloneKindOf } from '../../src/host/clone_kind.ts'
import { envOf, type Neap, NEAP, neapRun, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, operationsOf, type Place, suspend } from '../project.ts'

/* How far a copy is: in the operation, on the command line and in the metrics. */

let neap: Neap
let place: Place
/** A sparse file in the parent, so large that its copy can be stopped on the way. */
let large: string

const LARGE_BYTES = 8 * 2 ** 30

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  await suspend(neap, place)
  large = join(branches(), place.branch_id, 'pgdata/base/large')
})
after(() => neap?.stop())

const branches = () => join(neap.ready.data_dir, 'branches')

/** Stops the next copy once it has noted how far it is. Returns a function that lets it end. */
function stopOnTheWay(): { readonly stopped: Promise<void>; readonly goOn: () => void } {
  writeFileSync(large, '')
  truncateSync(large, LARGE_BYTES)
  const known = new Set(readdirSync(branches()))
  let [pid, copied] = [0, '']
  const stopped = until('a copy that is on its way', async () => {
    const made = readdirSync(branches()).find((id) => !known.has(id))
    if (made === undefined) return false
    const home = join(branches(), made)
    if (!readdirSync(home).includes('copy.progress')) return false
    copied = join(home, 'pgdata.making/base/large')
    pid = Number(readFileSync(join(home, 'copier'), 'utf8').split(' ')[0])
    process.kill(pid, 'SIGSTOP')
    return true
  })
  return {
    stopped: stopped.then(() => undefined),
    goOn() {
      // Neither the rest of it nor its copied part is to be written to disk.
      for (const file of [large, copied]) if (existsSync(file)) truncateSync(file, 0)
      process.kill(pid, 'SIGCONT')
    },
  }
}

/** A command with its standard error so far. */
function command(program: string, args: readonly string[]) {
  const child = spawn(program, args, { env: envOf(neap.ready.data_dir), stdio: ['ignore', 'pipe', 'pipe'] })
  let stderr = ''
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  return { ended: once(child, 'close'), stderr: () => stderr, stdout: () => stdout }
}

const neapCommand = (...args: string[]) => command(NEAP, args)

async function workerMetrics(): Promise<string> {
  const { stdout } = await neapRun(['status', '--json'], envOf(neap.ready.data_dir))
  const { worker_metrics_port } = JSON.parse(stdout) as { worker_metrics_port: number }
  return (await fetch(`http://127.0.0.1:${worker_metrics_port}/metrics`)).text()
}

const COPIED = /^neap_copy_bytes\{.*state="copied".*\} (\d+)$/m
const LEFT = /^neap_copy_bytes\{.*state="left".*\} (\d+)$/m

test('a copy shows how far it is in its operation, in metrics, and to a client that waits', async (t) => {
  if ((await cloneKindOf(neap.ready.data_dir)) === 'reflink') return t.skip('copies share blocks here')
  const copy = stopOnTheWay()
  const waiting = neapCommand('branches', 'create', 'progress', '--no-endpoint', '--wait')
  await copy.stopped
  const said = /the parent is being copied: \d\.\d of 8\.\d GiB \(\d+ %\), about \d+ (s|min) left/
  const operation = await until('its progress', async () =>
    (await operationsOf(neap, place)).find(({ wait_reason }) => said.test(wait_reason ?? '')),
  )
  assert.deepEqual([operation.action, operation.status], ['create_branch', 'running'])
  const metrics = await workerMetrics()
  assert.match(metrics, /^neap_copies_running\{.*\} 1$/m)
  const [copied, left] = [COPIED, LEFT].map((bytes) => Number(bytes.exec(metrics)?.[1]))
  assert.ok(copied && left && copied + left >= LARGE_BYTES, metrics)
  const wait = ['operations', 'wait', operation.id]
  const silent = [neapCommand(...wait, '--json'), neapCommand(...wait, '--quiet')]
  const loud = neapCommand(...wait)
  const terminal = command('script', ['-qec', [NEAP, ...wait].join(' '), '/dev/null'])
  await until('lines of progress', () => [waiting, loud].every(({ stderr }) => said.test(stderr())))
  await until('a line that is replaced', () => terminal.stdout().includes('\r\x1b[K… create_branch: the parent is'))
  copy.goOn()
  for (const { ended } of [waiting, loud, terminal, ...silent]) assert.deepEqual(await ended, [0, null])
  assert.deepEqual(
    silent.map(({ stderr }) => stderr()),
    ['', ''],
  )
  assert.match(await workerMetrics(), /^neap_copies_running\{.*\} 0$/m)
})
