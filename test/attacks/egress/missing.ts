import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { query } from '../../clients.ts'
import { envOf, type Neap, neapRun, startNeap } from '../../neap.ts'
import { until } from '../../processes.ts'
import { firstPlace } from '../../project.ts'
import { enableEgress, openShell, reached } from './compute.ts'
import { PUBLIC } from './places.ts'

/* A machine without pasta. Run by egress.test.ts, in simulated networks. */

const WHY = 'pasta is not installed: install the package passt'

let neap: Neap
before(async () => {
  neap = await startNeap()
})
after(() => neap?.stop())

void test('egress can be enabled, and start-up, status and the project report the missing program', async () => {
  const place = await firstPlace(neap)
  assert.match(neap.stderr(), new RegExp(`egress +.*${WHY}`))
  const { data_dir } = neap.ready
  const status = async (...flags: string[]) =>
    (await neapRun(['status', '--data-dir', data_dir, ...flags], envOf(data_dir))).stdout
  assert.match(await status(), new RegExp(`egress +.*${WHY}`))
  assert.equal((JSON.parse(await status('--json')) as { egress_missing: string }).egress_missing, WHY)
  await query(neap, place.uri, 'select 1')
  const { settings } = await enableEgress(neap, place, true)
  assert.equal(settings.enable_egress, true)
  const { project_id } = place
  await until('the project says why', async () => {
    const { project } = await neap.call('GET /projects/:project_id', { params: { project_id } })
    return project.egress_missing === WHY
  })
  await query(neap, place.uri, 'select 1')
  const code = await openShell(neap, place)
  assert.deepEqual(await reached(() => code.connect(PUBLIC)), [])
  await code.end()
})
