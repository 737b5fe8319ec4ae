import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import type { Branch, ConnectionDetails, Database, Endpoint, Operation, Project, Role } from '@neondatabase/api-client'
import { without } from '../clients.ts'
import { type Neap, run, startNeap } from '../neap.ts'
import { endpointOf, firstPlace, operationsOf, type Place } from '../project.ts'
import { type Neonctl, neonctlFor } from './neonctl.ts'

/* A user of the unmodified public command line, who connects with psql to the URIs it prints. */

let neap: Neap
let cli: Neonctl
let place: Place

before(async () => {
  neap = await startNeap()
  cli = neonctlFor(neap)
  place = await firstPlace(neap)
})

after(async () => {
  cli?.leave()
  await neap?.stop()
})

const noPsql = without('psql')
const of = (projectId = place.project_id) => ['--project-id', projectId]

/** Waits until all operations of a project have ended; the command line never waits. */
async function quiet(project_id = place.project_id): Promise<void> {
  const operations = await operationsOf(neap, { ...place, project_id })
  await neap.ended(operations.filter(({ status }) => status === 'scheduling' || status === 'running'))
}

/** Runs psql with the proxy's address in the environment, and returns its output. */
async function psql(connection: string, sql: string): Promise<string> {
  const env = { PATH: process.env['PATH'], PGHOSTADDR: '127.0.0.1', PGPORT: String(neap.ready.proxy_port) }
  const { code, stdout, stderr } = await run('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', connection, '-c', sql], env)
  assert.equal(code, 0, stderr)
  return stdout.trim()
}

/** Asserts that a command exits with code 1 and this message on standard error. */
async function fails(args: readonly string[], says: RegExp, key?: string): Promise<void> {
  const { code, stdout, stderr } = await cli.run(args, key === undefined ? {} : { key })
  assert.deepEqual([code, stdout], [1, ''], stderr)
  assert.match(stderr, says)
}

/** The cells of a printed table, without its frame. */
const rowsOf = (table: string): string[][] =>
  table
    .split('\n')
    .filter((line) => line.startsWith('│'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('│')
        .map((cell) => cell.trim()),
    )

test('me and orgs list the account and its organization', async () => {
  const me = await cli.json<{ name: string; email: string; projects_limit: number }>('me')
  assert.deepEqual(rowsOf(await cli.text('me')), [
    ['Login', 'Email', 'Name', 'Projects Limit'],
    [me.name, me.email, me.name, String(me.projects_limit)],
  ])
  const [organization] = await cli.json<{ id: string; name: string }[]>('orgs', 'list')
  assert.deepEqual(rowsOf(await cli.text('orgs', 'list')), [
    ['Id', 'Name'],
    [organization?.id, organization?.name],
  ])
})

test('the only project is used by default', async () => {
  const branches = await cli.json<Branch[]>('branches', 'list')
  assert.deepEqual(
    branches.map(({ id, name, default: isDefault }) => [id, name, isDefault]),
    [[place.branch_id, 'main', true]],
  )
  assert.equal(rowsOf(await cli.text('branches', 'list'))[1]?.[0], '[default] main')
})

test('commands of absent products are answered', async () => {
  const status = await cli.json<{ branch: { name: string } }>('status')
  assert.equal(status.branch.name, 'main')
  assert.match(await cli.text('snapshots', 'list'), /No snapshots found/)
  assert.deepEqual(await cli.json('vpc', 'project', 'list'), [])
  assert.deepEqual(await cli.json('vpc', 'endpoint', 'list', '--region-id', 'local'), [])
})

test('projects are created, listed, read, renamed and deleted', async () => {
  interface Made {
    readonly project: Project
    readonly connection_uris: ConnectionDetails[]
  }
  const made = await cli.json<Made>('projects', 'create', '--name', 'second', '--database', 'shop', '--role', 'clerk')
  const { id } = made.project
  assert.equal(made.connection_uris[0]?.connection_parameters.role, 'clerk')
  const listed = await cli.json<{ projects: Project[]; shared_with_you: Project[] }>('projects', 'list')
  assert.deepEqual(listed.projects.map((project) => project.name).sort(), ['first', 'second'])
  assert.deepEqual(listed.shared_with_you, [])
  assert.match(await cli.text('projects', 'list'), /^Projects\n[^]*No projects have been shared with you\n$/)
  assert.equal((await cli.json<Project>('projects', 'get', id)).name, 'second')
  const resized = await cli.json<Project>('projects', 'update', id, '--name', 'renamed', '--cu', '1-2')
  assert.deepEqual([resized.name, resized.default_endpoint_settings?.autoscaling_limit_max_cu], ['renamed', 2])
  await fails(['branches', 'list'], /Multiple projects found/)
  await quiet(id)
  assert.equal((await cli.json<Project>('projects', 'delete', id)).id, id)
  await quiet(id)
  await fails(['projects', 'get', id], new RegExp(`^ERROR: project ${id} not found\n$`))
})

test('snapshots are taken, restored and removed, and a schedule is set', async () => {
  await cli.text('branches', 'create', '--name', 'shot', '--no-compute', ...of())
  await quiet()
  const { id } = await cli.json<{ id: string }>('snapshots', 'create', ...of(), '--name', 'first', '--branch', 'shot')
  assert.deepEqual(
    (await cli.json<{ id: string }[]>('snapshots', 'list', ...of())).map((each) => each.id),
    [id],
  )
  await quiet()
  await cli.text('snapshots', 'restore', 'first', ...of(), '--name', 'look')
  await quiet()
  await cli.text('snapshots', 'finalize', 'look', ...of(), '--name', 'shot-before')
  await quiet()
  const schedule = ['snapshots', 'schedule', 'set', ...of(), '--branch', 'shot', '--frequency', 'daily', '--hour', '3']
  await cli.text(...schedule)
  assert.match(await cli.text('snapshots', 'schedule', 'get', ...of(), '--branch', 'shot'), /daily[^]*3/)
  await cli.text('snapshots', 'delete', id, ...of())
  await quiet()
  assert.deepEqual(await cli.json('snapshots', 'list', ...of()), [])
  // Each after its children.
  for (const branch of ['shot', 'look', 'shot-before']) await cli.text('branches', 'delete', branch, ...of())
  await quiet()
})

test('psql connects with the printed connection-string', { skip: noPsql }, async () => {
  const uri = (await cli.text('connection-string', ...of())).trim()
  assert.equal(new URL(uri).hostname, (await endpointOf(neap, place)).host)
  assert.equal(new URL(uri).searchParams.get('channel_binding'), 'require')
  await psql(uri, 'create table item (id int primary key, name text)')
  await psql(uri, `insert into item values (1, 'one'), (2, 'two')`)
  assert.equal(await psql(uri, 'select count(*), max(name), current_user from item'), '2|two|neondb_owner')
  const byName = (await cli.text('cs', 'main', ...of(), '--ssl', 'omit', '--prisma')).trim()
  assert.equal(new URL(byName).search, '?connect_timeout=30')
  assert.equal(await psql(`${byName}&sslmode=require`, 'select 6 * 7'), '42')
  const pooled = new URL((await cli.text('cs', place.branch_id, ...of(), '--pooled', '--prisma')).trim())
  assert.ok(pooled.hostname.startsWith(`${place.endpoint_id}-pooler.`))
  assert.equal(pooled.searchParams.get('pgbouncer'), 'true')
  const extended = await cli.json<Record<string, string>>('cs', ...of(), '--extended')
  assert.deepEqual(
    [extended['connection_string'], extended['role'], extended['database']],
    [uri, 'neondb_owner', 'neondb'],
  )
})

test('databases and roles are created, listed and deleted, and psql connects to them', { skip: noPsql }, async () => {
  assert.equal((await cli.json<Database>('databases', 'create', '--name', 'shop', ...of())).owner_name, 'neondb_owner')
  assert.equal((await cli.json<Role>('roles', 'create', '--name', 'clerk', ...of())).name, 'clerk')
  const names = (rows: readonly { name: string }[]) => rows.map(({ name }) => name).sort()
  assert.deepEqual(names(await cli.json<Database[]>('databases', 'list', ...of())), ['neondb', 'shop'])
  assert.deepEqual(names(await cli.json<Role[]>('roles', 'list', '--branch', 'main', ...of())), [
    'clerk',
    'neondb_owner',
  ])
  await fails(['cs', ...of()], /Multiple roles found.*--role-name/)
  await quiet()
  const uri = (await cli.text('cs', ...of(), '--role-name', 'clerk', '--database-name', 'shop')).trim()
  assert.equal(await psql(uri, 'select current_user, current_database()'), 'clerk|shop')
  assert.equal((await cli.json<Database>('databases', 'delete', 'shop', ...of())).name, 'shop')
  assert.equal((await cli.json<Role>('roles', 'delete', 'clerk', ...of())).name, 'clerk')
  assert.deepEqual(names(await cli.json<Database[]>('databases', 'list', ...of())), ['neondb'])
  await quiet()
})

test('branches are created, found by name, renamed, set as default and deleted', { skip: noPsql }, async () => {
  interface Made {
    readonly branch: Branch
    readonly endpoints: Endpoint[]
    readonly connection_uris: ConnectionDetails[]
  }
  const create = ['branches', 'create', '--name', 'dev', '--suspend-timeout', '600', '--cu', '0.5', ...of()]
  const made = await cli.json<Made>(...create)
  assert.equal(made.branch.parent_id, place.branch_id)
  assert.deepEqual(
    made.endpoints.map((endpoint) => [endpoint.suspend_timeout_seconds, endpoint.autoscaling_limit_max_cu]),
    [[600, 0.5]],
  )
  await quiet()
  const uri = (await cli.text('cs', 'dev', ...of())).trim()
  assert.equal(await psql(uri, 'select count(*) from item'), '2')
  await psql(uri, `insert into item values (3, 'three')`)
  assert.equal((await cli.json<Branch>('branches', 'get', 'dev', ...of())).id, made.branch.id)
  assert.equal((await cli.json<Branch>('branches', 'rename', 'dev', 'work', ...of())).name, 'work')
  assert.equal(await psql((await cli.text('cs', 'work', ...of())).trim(), 'select count(*) from item'), '3')
  assert.equal((await cli.json<Branch>('branches', 'set-default', 'work', ...of())).default, true)
  assert.equal((await cli.text('cs', ...of())).trim(), uri)
  await fails(['branches', 'delete', 'work', ...of()], /cannot delete the default branch/)
  await cli.text('branches', 'set-default', 'main', ...of())
  const expires = new Date(Date.now() + 86_400_000).toISOString()
  const set = await cli.json<Branch>('branches', 'set-expiration', 'work', '--expires-at', expires, ...of())
  assert.equal(Date.parse(set.expires_at ?? ''), Date.parse(expires))
  assert.equal((await cli.json<Branch>('branches', 'set-expiration', 'work', ...of())).expires_at, undefined)
  await quiet()
})

test('a branch is reset to its parent, and restored from another', { skip: noPsql }, async () => {
  const uri = (await cli.text('cs', 'work', ...of())).trim()
  assert.equal(await psql(uri, 'select count(*) from item'), '3')
  await cli.text('branches', 'reset', 'work', '--parent', ...of())
  await quiet()
  assert.equal(await psql(uri, 'select count(*) from item'), '2')
  await psql(uri, 'delete from item')
  const kept = ['--preserve-under-name', 'before']
  const restored = await cli.text('branches', 'restore', 'work', 'main', ...kept, ...of())
  assert.match(restored, /Restored branch[^]*work[^]*Backup branch/)
  await quiet()
  assert.equal(await psql(uri, 'select count(*) from item'), '2')
  await fails(['branches', 'reset', 'main', '--parent', ...of()], /Branch has no parent/)
  for (const branch of ['work', 'before']) await cli.text('branches', 'delete', branch, ...of())
  await quiet()
  assert.equal((await cli.json<Branch[]>('branches', 'list', ...of())).length, 1)
})

test('a compute is added to a branch that was created without one', async () => {
  await cli.text('branches', 'create', '--name', 'bare', '--no-compute', ...of())
  await fails(['cs', 'bare', ...of()], /endpoint found for the branch/)
  await fails(['branches', 'add-compute', 'bare', ...of()], /Only endpoints of the type read_write are supported/)
  const add = ['branches', 'add-compute', 'bare', '--type', 'read_write', ...of()]
  const added = await cli.json<Endpoint>(...add)
  // This command line names a compute after the branch in the command.
  assert.deepEqual([added.name, added.type], ['bare', 'read_write'])
  await fails(add, /read_write endpoint already exists/)
  await quiet()
  await cli.text('branches', 'delete', 'bare', ...of())
  await quiet()
})

test('operations are listed, newest first', async () => {
  const operations = await cli.json<Operation[]>('operations', 'list', ...of())
  assert.deepEqual([operations.at(-1)?.action, operations.at(-1)?.status], ['create_timeline', 'finished'])
  const [head, newest] = rowsOf(await cli.text('operations', 'list', ...of()))
  assert.deepEqual(head, ['Id', 'Action', 'Status', 'Created At'])
  assert.equal(newest?.[0], operations[0]?.id)
})

test('the list of allowed addresses is stored and reset', async () => {
  interface Allowed {
    readonly IP_addresses: string[]
    readonly protected_branches_only: boolean
  }
  const ipAllow = async (...args: string[]) => (await cli.json<Allowed>('ip-allow', ...args, ...of())).IP_addresses
  assert.deepEqual(await ipAllow('list'), [])
  assert.deepEqual(await ipAllow('add', '127.0.0.0/8', '10.1.2.3'), ['127.0.0.0/8', '10.1.2.3'])
  assert.deepEqual(await ipAllow('remove', '10.1.2.3'), ['127.0.0.0/8'])
  assert.deepEqual(await ipAllow('list'), ['127.0.0.0/8'])
  assert.deepEqual(await ipAllow('reset'), [])
  assert.deepEqual(rowsOf(await cli.text('ip-allow', 'list', ...of()))[1]?.[0], place.project_id)
})

const noPostgres15 = existsSync('/usr/lib/postgresql/15/bin/pg_dump') ? noPsql : 'Postgres 15 not installed'

test('schemas of two branches are compared', { skip: noPostgres15 }, async () => {
  const { project } = await cli.json<{ project: Project }>('projects', 'create', '--pg-version', '15')
  const fifteen = of(project.id)
  await quiet(project.id)
  await cli.text('branches', 'create', '--name', 'dev', ...fifteen)
  await quiet(project.id)
  await psql((await cli.text('cs', 'dev', ...fifteen)).trim(), 'create table added (id int)')
  const patch = await cli.text('branches', 'schema-diff', 'main', 'dev', ...fifteen)
  assert.match(patch, /^--- Database: neondb.*\n\+\+\+ Database: neondb.*\n[^]*^\+CREATE TABLE public\.added \($/m)
  await cli.text('projects', 'delete', project.id)
  await quiet(project.id)
})

test('a key of one project shows its account and works in that project', async () => {
  const body = { key_name: 'for one project', project_id: place.project_id }
  const { key } = await neap.call('POST /api_keys', { body })
  for (const args of [['me'], ['orgs', 'list'], ['branches', 'list', ...of()]])
    assert.equal((await cli.run(args, { key })).code, 0, args.join(' '))
  await fails(['projects', 'get', 'none-none-00000000'], /not found/, key)
})

test('an error is printed, and the exit code is 1', async () => {
  await fails(['branches', 'list', ...of('none-none-00000000')], /^ERROR: project none-none-00000000 not found\n$/)
  await fails(['branches', 'get', 'nope', ...of()], /^ERROR: Branch nope not found\.\nAvailable branches: main\n$/)
  await fails(['branches', 'get', 'br-no-such-branch', ...of()], /^ERROR: branch br-no-such-branch not found\n$/)
  await fails(['branches', 'create', '--name', 'main', ...of()], /^ERROR: branch already exists; branch_name:"main"\n$/)
  await fails(['databases', 'create', '--name', 'x', '--owner-name', 'y', ...of()], /database owner not found.*"y"/)
  await fails(['projects', 'create', '--region-id', 'aws-us-east-2'], /There is no region aws-us-east-2 here/)
  await fails(['projects', 'list'], /^INFO: Authentication failed, deleting credentials/, 'wrong')
  await fails(['projects', 'list'], /^INFO: Authentication failed, deleting credentials/, `${neap.ready.api_key}x`)
})
