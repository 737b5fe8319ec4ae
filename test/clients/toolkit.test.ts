import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { readFileSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { neonConfig } from '@neondatabase/serverless'
import { NeonToolkit } from '@neondatabase/toolkit'
import { type Neap, startNeap } from '../neap.ts'

/*
 * The toolkit, unmodified, as tests and agents use it: a temporary project. It has no setting for the API's address,
 * but its client does, and the driver behind its `sql()` has one for the proxy's.
 */

let neap: Neap

before(async () => {
  neap = await startNeap()
  setDefaultCACertificates([...getCACertificates(), readFileSync(neap.ready.ca_file, 'utf8')])
  neonConfig.fetchEndpoint = (host, port) => `https://${host}:${port}/sql`
})

after(() => neap?.stop())

test('a project is created, used and deleted', async () => {
  const toolkit = new NeonToolkit(neap.ready.api_key ?? '')
  toolkit.apiClient.instance.defaults.baseURL = neap.ready.api_url
  const project = await toolkit.createProject({ name: 'for a while' })
  assert.equal(project.project.name, 'for a while')
  assert.deepEqual(
    [project.roles.length, project.databases.length, project.endpoints.length, project.branches.default],
    [1, 1, 1, true],
  )
  // The operations are not awaited: the first connection is admitted as soon as the compute is ready.
  await toolkit.sql(project, `create table person as select 'Sam' as name`)
  assert.deepEqual(await toolkit.sql(project, 'table person'), [{ name: 'Sam' }])
  await toolkit.deleteProject(project)
  const { data } = await toolkit.apiClient.listProjectOperations({ projectId: project.project.id })
  await neap.ended(data.operations.filter(({ action }) => (action as string) === 'delete_tenant'))
  await assert.rejects(toolkit.sql(project, 'table person'), /password authentication failed|could not be found/)
  await assert.rejects(toolkit.apiClient.getProject(project.project.id), /404/)
})
