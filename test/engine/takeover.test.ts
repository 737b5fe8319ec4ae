import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { awaitOperations } from '../../src/catalog/operation.ts'
import { sql } from '../../src/catalog/sql.ts'
import { startRunner } from '../../src/engine/runner.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { HOST, newProject, queue, read, take, emitted } from './operations.ts'

// Operations of a worker, a real process, that dies or freezes in the middle of a step.
let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(async () => {
  for (const worker of workers) worker.kill('SIGKILL')
  await catalogs.close()
})

const workers: ChildProcess[] = []
const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url))

/** A worker process in the middle of an operation's step. */
async function workerInStep(url: string, frozenSeconds: number): Promise<ChildProcess> {
  const worker = fork(WORKER, [url, String(frozenSeconds)])
  workers.push(worker)
  assert.equal(await emitted(worker, 'message'), 'in the step')
  return worker
}

async function ended(worker: ChildProcess, by: () => void): Promise<void> {
  const exit = once(worker, 'exit')
  by()
  await exit
}

/** Finishes an operation by takeover, with a runner in this process. */
async function finishHere(catalog: Catalog, id: string) {
  const runner = await startRunner({
    catalog,
    context: undefined,
    host: HOST,
    concurrency: 1,
    sweepMs: 20,
    isTakenOver: () => false,
    onError: () => {},
    definitions: [
      {
        action: 'toil',
        deadlineSeconds: 60,
        steps: {
          async begun(operation, _context, tx) {
            await tx.rows(sql`insert into effect values (${operation.id}, 'here')`)
          },
        },
        async onFailure() {},
      },
    ],
  })
  await awaitOperations(catalog, [id], 60_000)
  await runner.stop()
  return read(catalog, id)
}

const effects = (catalog: Catalog) => catalog.rows(sql`select * from effect`)

async function prepared(catalog: Catalog) {
  await catalog.rows(sql`create table effect (operation_id uuid, by text)`)
  return newProject(catalog)
}

test('another worker takes over the operation of a worker killed during a step', () =>
  catalogs.with(async ({ catalog, url }) => {
    const { id } = await queue(catalog, await prepared(catalog))
    const worker = await workerInStep(url, 15)
    assert.equal(await take(catalog), undefined)
    await ended(worker, () => worker.kill('SIGKILL'))
    const operation = await finishHere(catalog, id)
    assert.deepEqual([operation.status, operation.generation, operation.attempts], ['finished', 2, 2])
    assert.deepEqual(await effects(catalog), [{ operation_id: id, by: 'here' }])
  }))

test('a worker that was frozen during a step changes no row afterwards, and keeps working', () =>
  catalogs.with(async ({ catalog, url }) => {
    const project = await prepared(catalog)
    const { id } = await queue(catalog, project)
    const worker = await workerInStep(url, 1)
    worker.kill('SIGSTOP')
    // Ends only because the catalog ends the session of the frozen worker.
    const operation = await finishHere(catalog, id)
    assert.deepEqual([operation.status, operation.generation], ['finished', 2])

    const complaint = emitted<string>(worker, 'message')
    worker.kill('SIGCONT')
    worker.send('go on')
    assert.match(await complaint, /^error: /)
    assert.deepEqual(await effects(catalog), [{ operation_id: id, by: 'here' }])
    assert.deepEqual(await read(catalog, id), operation)

    const again = emitted<string>(worker, 'message')
    const next = await queue(catalog, project)
    assert.equal(await again, 'in the step')
    worker.send('go on')
    assert.equal((await awaitOperations(catalog, [next.id], 60_000))[0]?.status, 'finished')
    await ended(worker, () => worker.disconnect())
    assert.equal(worker.exitCode, 0)
  }))
