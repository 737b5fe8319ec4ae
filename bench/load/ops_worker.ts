/**
 * A worker with one action that does nothing. It runs between `go` and `halt` of its parent, and exits when the parent
 * disconnects. It reports the number of operations ended since `go`, because queries to the catalog would add to the
 * measured cost:
 *
 *   node ops_worker.ts CATALOG_URL CONCURRENCY
 */
import { openCatalog } from '../../src/catalog/catalog.ts'
import { sql } from '../../src/catalog/sql.ts'
import { type Runner, startRunner } from '../../src/engine/runner.ts'

/** Milliseconds. */
const REPORT_EVERY = 10

const [url = '', concurrency] = process.argv.slice(2)
const catalog = openCatalog(url, Number(concurrency) + 4, console.error)
// Open all connections first, as in a worker that has run for a while.
await Promise.all(Array.from({ length: Number(concurrency) }, () => catalog.rows(sql`select pg_sleep(0.5)`)))
const run = (): Promise<Runner> =>
  startRunner({
    catalog,
    definitions: [{ action: 'toil', deadlineSeconds: 60, steps: { async begun() {} }, async onFailure() {} }],
    context: undefined,
    host: 'first',
    concurrency: Number(concurrency),
    isTakenOver: () => false,
    onError: console.error,
    onEnd: () => ended++,
  })
let ended = 0
let runner: Runner | undefined
let reports: NodeJS.Timeout | undefined
async function obey(told: unknown): Promise<void> {
  if (told === 'go') {
    ended = 0
    reports = setInterval(() => process.send?.(ended), REPORT_EVERY)
    runner = await run()
  } else {
    clearInterval(reports)
    await runner?.stop()
    process.send?.(told)
  }
}
process.on('message', (told) => void obey(told))
process.once('disconnect', () => void catalog.close())
process.send?.('here')
