import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { NeonToolkit } from '@neondatabase/toolkit'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'

/*
 * The toolkit, unmodified, as tests and agents use it: a project of their own for a while. It has no setting for the address of
 * the API, but its client has. Its `sql()` needs SQL over HTTP, which the proxy does not serve yet, so `pg` connects instead.
 */

let neap: Neap

before(async () => {
  neap = await startNeap()
})

after(() => neap?.stop())

test('a project is made, used and deleted', async () => {
  const toolkit = new NeonToolkit(neap.ready.api_key ?? '')
  toolkit.apiClient.instance.defaults.baseURL = neap.ready.api_url
  const project = await toolkit.createProject({ name: 'for a while' })
  assert.equal(project.project.name, 'for a while')
  assert.deepEqual(
    [project.roles.length, project.databases.length, project.endpoints.length, project.branches.default],
    [1, 1, 1, true],
  )
  const uri = project.connectionURIs[0]?.connection_uri ?? ''
  // Not waited for: the first connection is let in as soon as the compute is there.
  await query(neap, uri, `create table person as select 'Sam' as name`)
  assert.deepEqual(await query(neap, uri, 'table person'), [{ name: 'Sam' }])
  await toolkit.deleteProject(project)
  const { data } = await toolkit.apiClient.listProjectOperations({ projectId: project.project.id })
  await neap.ended(data.operations.filter(({ action }) => (action as string) === 'delete_tenant'))
  await assert.rejects(query(neap, uri, 'table person'), /password authentication failed|could not be found/)
  await assert.rejects(toolkit.apiClient.getProject(project.project.id), /404/)
})
