import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { connect } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, computeIdOf, newProject } from '../project.ts'

let neap: Neap
before(async () => {
  neap = await startNeap()
})
after(() => neap?.stop())

const BRANCHES = 7

test('a project with computes and clients in use is deleted: its sessions end at once, its stores go', async (t) => {
  const root = await newProject(neap)
  const places = [root, ...(await Promise.all(Array.from({ length: BRANCHES }, () => branchOff(neap, root))))]
  const clients = await Promise.all(
    places.map(async ({ uri }) => {
      const client = await connect(neap, uri)
      const isOver = new Promise<void>((resolve) => client.once('end', resolve))
      client.query('select pg_sleep(600)').catch(() => undefined)
      return { isOver }
    }),
  )
  await Promise.all(places.map((place) => computeIdOf(neap, place)))
  const began = performance.now()
  const since = () => `${Math.round(performance.now() - began)} ms`
  await neap.call('DELETE /projects/:project_id', { params: { project_id: root.project_id } })
  t.diagnostic(`answered after ${since()}`)
  await Promise.all(clients.map(({ isOver }) => isOver))
  t.diagnostic(`the last of ${places.length} sessions ended after ${since()}`)
  // As where there never was such an endpoint.
  await Promise.all(places.map(({ uri }) => assert.rejects(connect(neap, uri), { code: '28P01' })))
  const ids = new Set(places.map(({ endpoint_id }) => endpoint_id))
  await until('the end of all computes', async () => {
    const { computes } = await neap.call('GET /status', {})
    return !computes.some(({ endpoint_id }) => ids.has(endpoint_id))
  })
  const stores = places.map(({ branch_id }) => join(neap.ready.data_dir, 'branches', branch_id))
  await until('the removal of all stores', () => !stores.some((store) => existsSync(store)))
  t.diagnostic(`all stores were gone after ${since()}`)
})
