/* Throughput of the engine: operations per second without an effect outside the catalog. */
import { type ChildProcess, fork } from 'node:child_process'
import { on, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { type Catalog, openCatalog } from '../src/catalog/catalog.ts'
import { embeddedCatalogUrl } from '../src/catalog/embedded.ts'
import { sql } from '../src/catalog/sql.ts'
import { SETTINGS } from '../src/settings.ts'
import { loadOrCreateSecrets } from '../src/secrets/secrets.ts'
import { newProject, queue } from '../test/engine/operations.ts'
import { startNeap } from '../test/neap.ts'
import { openState, withoutWorker } from '../test/surface/state.ts'
import { percentile, report } from './samples.ts'

const WORKERS = 8
const CONCURRENCY = SETTINGS.workerConcurrency.fallback('')
const [rounds = 5, operations = 4000] = process.argv.slice(2).map(Number)
const PROGRAM = fileURLToPath(new URL('load/ops_worker.ts', import.meta.url))

const perSecond: Record<string, number[]> = {}
const neap = await startNeap()
const { data_dir } = neap.ready
const secrets = await loadOrCreateSecrets(join(data_dir, 'secret.key'))
const url = embeddedCatalogUrl(join(data_dir, 'run'), secrets.catalogPasswords()[0])
const state = await openState(neap)
const catalog = openCatalog(url, 8, console.error)
try {
  const workers = Array.from({ length: WORKERS }, () => fork(PROGRAM, [url, String(CONCURRENCY)]))
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  // Neap's own worker would react to each operation's notification.
  await withoutWorker(neap, state, async () => {
    for (const [name, projects] of [
      ['200 projects', 200],
      ['one project', 1],
    ] as const) {
      const rates: number[] = (perSecond[name] = [])
      for (let round = 0; round <= rounds; round++) {
        await fill(catalog, projects)
        const rate = await drain(workers)
        // The first round is a warm-up.
        if (round > 0) rates.push(rate)
      }
    }
  })
  for (const worker of workers) worker.disconnect()
} finally {
  await catalog.close()
  await state.close()
  await neap.stop()
}

async function fill(db: Catalog, projects: number): Promise<void> {
  const made = await Promise.all(Array.from({ length: projects }, () => newProject(db)))
  const each = operations / projects
  await Promise.all(
    made.map((project) =>
      db.transaction(async (tx) => {
        for (let number = 0; number < each; number++) await queue(tx, project)
      }),
    ),
  )
}

async function halted(worker: ChildProcess): Promise<void> {
  for await (const [told] of on(worker, 'message')) if (told === 'halt') return
}

/** Starts the workers together and waits until all operations have ended. Returns operations per second. */
async function drain(workers: readonly ChildProcess[]): Promise<number> {
  const begun = performance.now()
  const ended = workers.map(() => 0)
  await new Promise<void>((resolve) => {
    for (const [index, worker] of workers.entries()) {
      worker.on('message', (count: number) => {
        ended[index] = count
        if (ended.reduce((sum, each) => sum + each) === operations) resolve()
      })
      worker.send('go')
    }
  })
  const seconds = (performance.now() - begun) / 1000
  for (const worker of workers) worker.removeAllListeners('message').send('halt')
  await Promise.all(workers.map(halted))
  const failed = await catalog.row(
    sql`select id, error from operation where action = 'toil' and status = 'failed' limit 1`,
  )
  if (failed) throw new Error(`an operation failed: ${JSON.stringify(failed)}`)
  return operations / seconds
}

report(
  'ops',
  [
    `${WORKERS} worker processes with the runner of the control plane, up to ${CONCURRENCY} operations at once ` +
      `in each, as shipped; ${operations} operations of one step that does nothing`,
    'from when the workers, connected already, are let go until they have told of all ends (every 10 ms), ' +
      'by workers that have done a round before; the embedded catalog as it is shipped: ' +
      'each waits for the disk at its end',
    '200 projects: as many operations in each; one project: all in one, none excluding another',
  ],
  perSecond,
  Object.entries(perSecond).map(([name, rates]) => ({
    what: `${name}, median`,
    value: percentile(rates, 0.5),
    least: 2000,
    unit: '/s',
  })),
  'operations per second',
)
