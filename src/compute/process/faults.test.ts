import { deepEqual, equal, ok } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { StoreRef } from '../../storage/storage.ts'
import { hostText, PG_VERSION, SMALL, freshHost, processesIn, query, settled } from '../../../test/local_host.ts'
import { randomFrom } from '../../../test/random.ts'
import { notedServer } from './server_note.ts'

const SEED = Number(process.env['NEAP_TEST_SEED'] ?? Date.now() % 100_000)
const ROUNDS = Number(process.env['NEAP_TEST_ROUNDS'] ?? 12)

const local = freshHost()
const { storage, computes, next, home } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

/** The postmasters of a data directory, without children and orphans of a killed one, which have another title. */
function postmastersOf(branch: StoreRef): number[] {
  const members = processesIn(join(home(branch), 'pgdata'))
  return members.filter((pid) => {
    try {
      const parent = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
      return !members.includes(parent) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('\0-D\0')
    } catch {
      return false
    }
  })
}

/** Starts processes that call the backend on request, as a worker does, until they are killed. */
async function startWorkers(count: number) {
  const text = `${hostText(local.options)}
    process.on('message', async ({ action, args }) => {
      try { await storage, computes[action](...args) } catch { /* the next attempt shows whether it mattered */ }
    })
    process.send('ready')`
  const workers = Array.from({ length: count }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', text], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }),
  )
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  return workers
}

test(`a store has one server and loses no row when processes are killed at any moment (seed ${SEED})`, async (t) => {
  const random = randomFrom(SEED).next
  const branch = local.branch('target')
  await settled(() => storage.create(branch, next()))
  let expected = 0
  const child = () => local.branch(`child-${expected}`)
  const actions = [
    () => ({ action: 'startCompute', args: [branch, SMALL, next()] }),
    () => ({ action: 'stopCompute', args: [branch, next()] }),
    () => ({ action: 'cloneBranch', args: [child(), branch, next()] }),
  ]
  const workers = await startWorkers(2 * ROUNDS)
  t.after(() => workers.forEach((worker) => worker.kill('SIGKILL')))
  for (let round = 0; round < ROUNDS; round++) {
    const pair = workers.splice(0, 2)
    const ended = pair.map((worker) => once(worker, 'exit'))
    for (const worker of pair) worker.send(actions[Math.floor(random() * actions.length)]?.() ?? {})
    await new Promise((resolve) => setTimeout(resolve, random() * 80))
    const [victim] = postmastersOf(branch)
    if (victim && random() < 0.4) process.kill(victim, 'SIGKILL')
    for (const worker of pair) worker.kill('SIGKILL')
    await Promise.all(ended)
    ok(postmastersOf(branch).length <= 1, `round ${round}`)

    const compute = await local.start(branch, next())
    deepEqual(postmastersOf(branch), [notedServer(local.home(branch))?.pid], `round ${round}`)
    await query(
      compute.address,
      'CREATE TABLE IF NOT EXISTS round (number int); INSERT INTO round SELECT count(*) FROM round',
    )
    expected += 1
    const [row] = await query<{ count: number }>(compute.address, 'SELECT count(*)::int FROM round')
    equal(row?.count, expected)
    if (random() < 0.5) await settled(() => computes.stop(branch, next()))
  }
})
