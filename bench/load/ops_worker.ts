/**
 * A worker whose one action does nothing. It begins when its parent says so and ends when its parent lets go of it:
 *
 *   node ops_worker.ts CATALOG_URL CONCURRENCY
 */
import { once } from 'node:events'
import { openCatalog } from '../../src/catalog/catalog.ts'
import { sql } from '../../src/catalog/sql.ts'
import { startRunner } from '../../src/engine/runner.ts'

const [url = '', concurrency] = process.argv.slice(2)
const catalog = openCatalog(url, Number(concurrency) + 4, console.error)
// A worker that has been up for a while has its connections.
await Promise.all(Array.from({ length: Number(concurrency) }, () => catalog.rows(sql`select pg_sleep(0.5)`)))
process.send?.('here')
await once(process, 'message')
const runner = await startRunner({
  catalog,
  definitions: [{ action: 'toil', deadlineSeconds: 60, steps: { async begun() {} }, async onFailure() {} }],
  context: undefined,
  concurrency: Number(concurrency),
  isTakenOver: () => false,
  onError: console.error,
})
process.once('disconnect', () => {
  void runner.stop().then(() => catalog.close())
})
