import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createNeonClient, isNeonError, NeonAuthError, type NeonClient, NeonNotFoundError } from '@neon/sdk'
import { psql, without } from '../clients.ts'
import { withNames } from '../named_hosts.ts'
import { type Neap, startNeap } from '../neap.ts'

/*
 * The SDK for TypeScript, unmodified: it waits for operations itself, and derives pooled URIs from direct ones by
 * replacing the host.
 */

// Each proxy has separate pools: with one proxy, consecutive clients share a server connection.
const ONE_PROXY = { args: ['--no-project'], env: { NEAP_PROXIES: '1' } }

let neap: Neap
let sdk: NeonClient<true>

const clientOf = ({ ready }: Neap, apiKey = ready.api_key ?? '') =>
  createNeonClient({ apiKey, baseUrl: ready.api_url, throwOnError: true })

before(async () => {
  neap = await startNeap(ONE_PROXY)
  sdk = clientOf(neap)
})

after(() => neap?.stop())

const noPsql = without('psql')

/** Returns true when two consecutive connections to a URI use the same server process. */
async function isPooled(uri: string, run: typeof psql = psql): Promise<boolean> {
  const servers = []
  for (let n = 0; n < 2; n++) {
    const { code, stdout, stderr } = await run(uri, 'select pg_backend_pid()')
    assert.equal(code, 0, stderr)
    servers.push(stdout)
  }
  return servers[0] === servers[1]
}

test('a project and a branch are created and connected to', { skip: noPsql }, async () => {
  const { project, connectionString } = await sdk.projects.createAndConnect({ name: 'direct', pooled: false })
  assert.equal(project.name, 'direct')
  assert.equal((await psql(connectionString, 'create table item as select 1 as n')).code, 0)
  assert.equal(await isPooled(connectionString), false)
  const made = await sdk.branches.createAndConnect({ projectId: project.id, name: 'dev', pooled: false })
  assert.equal(made.endpoint.branch_id, made.branch.id)
  assert.equal((await psql(made.connectionString, 'table item')).stdout, '1')
  assert.equal(await isPooled(await sdk.postgres.connectionString({ projectId: project.id })), true)
  await sdk.projects.delete({ projectId: project.id })
})

test(
  'when host names resolve, connection strings name the host, direct and pooled',
  { skip: noPsql || withNames.skip },
  async (t) => {
    const home = mkdtempSync(join(tmpdir(), 'neap-hosts-'))
    const hosts = join(home, 'hosts')
    t.after(() => rmSync(home, { recursive: true }))
    writeFileSync(hosts, '127.0.0.1 localhost neap-name-check.local.localhost\n')
    const named = await startNeap({ ...ONE_PROXY, through: withNames.through(hosts) })
    try {
      const client = clientOf(named)
      for (const pooled of [false, true]) {
        const { connectionString } = await client.projects.createAndConnect({ pooled })
        const { hostname } = new URL(connectionString)
        assert.match(hostname, pooled ? /^ep-.*-pooler\.local\.localhost$/ : /^ep-((?!-pooler).)*\.local\.localhost$/)
        writeFileSync(hosts, `127.0.0.1 ${hostname}\n`, { flag: 'a' })
        const inside = (uri: string, sql: string) => psql(uri, sql, withNames.through(hosts))
        assert.equal(await isPooled(connectionString, inside), pooled)
      }
    } finally {
      await named.stop()
    }
  },
)

test('each resource is created, listed page by page, changed and deleted', async () => {
  const project = await sdk.projects.create({ name: 'one' }, { waitForReadiness: true })
  const projectId = project.id
  const others = await Promise.all(['two', 'three'].map((name) => sdk.projects.create({ name })))
  const listed = await sdk.projects.list({ limit: 1 }).all()
  assert.deepEqual(listed.map(({ name }) => name).sort(), ['one', 'three', 'two'])
  for (const other of others) await sdk.projects.delete({ projectId: other.id })

  const branchId = (await sdk.branches.getDefault({ projectId })).id
  const of = { projectId, branchId }
  for (const name of ['a', 'b']) await sdk.branches.create({ projectId, name }, { waitForReadiness: true })
  const branches = await sdk.branches.list({ projectId, limit: 1 }).all()
  assert.deepEqual(branches.map(({ name }) => name).sort(), ['a', 'b', 'main'])

  const role = await sdk.postgres.roles.create({ ...of, name: 'clerk' })
  const database = await sdk.postgres.databases.create({ ...of, name: 'shop', owner_name: role.name })
  assert.deepEqual([database.name, database.owner_name], ['shop', 'clerk'])
  assert.ok(await sdk.postgres.roles.password({ ...of, roleName: 'clerk' }))
  await sdk.postgres.databases.delete({ ...of, databaseName: 'shop' })
  await sdk.postgres.roles.delete({ ...of, roleName: 'clerk' })
  assert.deepEqual(
    (await sdk.postgres.databases.list(of)).map(({ name }) => name),
    ['neondb'],
  )

  const endpoints = await sdk.postgres.endpoints.listByBranch(of)
  const endpointId = endpoints[0]?.id ?? ''
  await sdk.postgres.endpoints.suspend({ projectId, endpointId }, { waitForReadiness: true })
  assert.equal((await sdk.postgres.endpoints.get({ projectId, endpointId })).current_state, 'idle')
  await sdk.postgres.endpoints.start({ projectId, endpointId }, { waitForReadiness: true })
  assert.equal((await sdk.postgres.endpoints.get({ projectId, endpointId })).current_state, 'active')
  const operations = await sdk.operations.list({ projectId }).all()
  assert.deepEqual(
    [operations.at(-1)?.action, operations.every(({ status }) => status === 'finished')],
    ['create_timeline', true],
  )
  await sdk.projects.delete({ projectId })
})

test('errors have the SDK’s own classes', async () => {
  await assert.rejects(sdk.projects.get({ projectId: 'none-none-00000000' }), NeonNotFoundError)
  await assert.rejects(clientOf(neap, 'wrong').projects.list().all(), NeonAuthError)
  const refused = sdk.projects.create({ pg_version: 9 })
  await assert.rejects(refused, (error) => isNeonError(error) && /pg_version/.test(error.message))
})

test('the SDK gets a pooled connection string by default', { skip: noPsql }, async () => {
  const { project, connectionString } = await sdk.projects.createAndConnect({ name: 'pooled' })
  assert.equal(await isPooled(connectionString), true)
  const made = await sdk.branches.createAndConnect({ projectId: project.id })
  assert.equal(await isPooled(made.connectionString), true)
  await sdk.projects.delete({ projectId: project.id })
})
