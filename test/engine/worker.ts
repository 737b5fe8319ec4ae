/**
 * A process with one runner, to be killed and frozen. Its step reports to its parent and continues when told to:
 *
 *   node worker.ts URL FROZEN_SECONDS
 */
import { once } from 'node:events'
import { openCatalog } from '../../src/catalog/catalog.ts'
import { sql } from '../../src/catalog/sql.ts'
import { messageOf } from '../../src/errors.ts'
import { startRunner } from '../../src/engine/runner.ts'

const [url = '', frozenSeconds] = process.argv.slice(2)
const tell = (what: string) => process.send?.(what)
const catalog = openCatalog(url, 4, () => {}, Number(frozenSeconds))
const runner = await startRunner({
  catalog,
  context: undefined,
  host: 'first',
  concurrency: 1,
  isTakenOver: () => false,
  onError: (error) => tell(`error: ${messageOf(error)}`),
  definitions: [
    {
      action: 'toil',
      deadlineSeconds: 60,
      steps: {
        async begun({ id }, _context, tx) {
          tell('in the step')
          await once(process, 'message')
          await tx.rows(sql`insert into effect values (${id}, 'child')`)
        },
      },
      async onFailure() {},
    },
  ],
})
process.once('disconnect', () => {
  void runner.stop().then(() => catalog.close())
})
