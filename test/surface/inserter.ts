/**
 * A process that inserts operations into a project, one transaction after the other, until its parent disconnects. Some
 * transactions insert several, are slow, or roll back; no worker knows the action.
 *
 *   node inserter.ts URL PROJECT_ID ACCOUNT_ID
 */
import { openCatalog } from '../../src/catalog/catalog.ts'
import { insertOperation } from '../../src/catalog/operation.ts'
import { lockProject } from '../../src/catalog/project.ts'

const [url = '', project_id = '', account_id = ''] = process.argv.slice(2)
const catalog = openCatalog(url, 2, () => {})
let on = true
process.once('disconnect', () => (on = false))

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

for (let round = 0; on; round++) {
  await catalog
    .transaction(async (tx) => {
      await lockProject(tx, account_id, project_id)
      for (let each = 0; each <= round % 3; each++) {
        const named = round % 4 === 0 ? { branch_id: 'br-paged' } : { branch_id: 'br-other', endpoint_id: 'ep-paged' }
        await insertOperation(tx, {
          ...named,
          account_id,
          project_id,
          action: round % 5 === 0 ? 'toil' : 'wait',
          input: {},
          step: 'begun',
          excludes: [],
          shares: [],
          passes_shared: false,
          depends_on: [],
          deadline_seconds: 60,
        })
        // If visible too early, or numbered before its commit, a reader would miss it or see it twice.
        if (round % 7 === 0) await pause(5)
      }
      if (round % 6 === 0) throw new Error('rolled back')
    })
    .catch(() => {})
  await pause(2)
}
await catalog.close()
