import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Branch, Database, Operation, Project, Role } from '@neondatabase/api-client'
import { without } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { neonctlFor } from './neonctl.ts'
import { peer, withoutPeers } from './peers.ts'

/*
 * The main commands of older and newer command lines than that of neonctl.test.ts, the first versions on axios, the
 * last on fetch, including the one renamed to `neon`. Each uses a separate project, through the context file that
 * `set-context` writes.
 */

const VERSIONS = {
  'neonctl 2.22.2': 'npm/node_modules/neonctl-2.22/cli.js',
  'neonctl 5.0.1': 'npm/node_modules/neonctl-5/bin/cli.js',
  'neon 6.2.3': 'npm/node_modules/neon/dist/cli.js',
}

let neap: Neap

before(async () => {
  neap = await startNeap({ args: ['--no-project'] })
})

after(() => neap?.stop())

const names = (rows: readonly { readonly name: string }[]) => rows.map(({ name }) => name).sort()

for (const [version, path] of Object.entries(VERSIONS))
  test(`${version}: the main commands and psql work`, { skip: withoutPeers(path) || without('psql') }, async (t) => {
    const proxy = { PGHOSTADDR: '127.0.0.1', PGPORT: String(neap.ready.proxy_port) }
    const cli = neonctlFor(neap, peer(path), proxy)
    t.after(() => cli.leave())
    const quiet = async (project_id: string) => {
      const { operations } = await neap.call('GET /projects/:project_id/operations', { params: { project_id } })
      await neap.ended(operations)
    }

    const me = await cli.json<{ login: string; email: string }>('me')
    assert.ok(me.login && me.email)
    const create = ['projects', 'create', '--name', version, '--database', 'shop', '--role', 'clerk']
    const { project } = await cli.json<{ project: Project }>(...create)
    assert.ok(names((await cli.json<{ projects: Project[] }>('projects', 'list')).projects).includes(version))
    assert.equal((await cli.json<Project>('projects', 'get', project.id)).name, version)
    await cli.text('set-context', '--project-id', project.id)

    const { branch } = await cli.json<{ branch: Branch }>('branches', 'create', '--name', 'dev')
    assert.equal((await cli.json<Branch>('branches', 'get', 'dev')).id, branch.id)
    assert.deepEqual(names(await cli.json<Branch[]>('branches', 'list')), ['dev', 'main'])
    await cli.json('databases', 'create', '--name', 'more', '--branch', 'dev')
    await cli.json('roles', 'create', '--name', 'helper', '--branch', 'dev')
    await quiet(project.id)
    assert.deepEqual(names(await cli.json<Database[]>('databases', 'list', '--branch', 'dev')), ['more', 'shop'])
    assert.deepEqual(names(await cli.json<Role[]>('roles', 'list', '--branch', 'dev')), ['clerk', 'helper'])

    const into = ['dev', '--role-name', 'helper', '--database-name', 'more']
    const uri = new URL((await cli.text('connection-string', ...into)).trim())
    assert.deepEqual([uri.username, uri.pathname], ['helper', '/more'])
    const pooled = new URL((await cli.text('connection-string', ...into, '--pooled')).trim())
    assert.equal(pooled.hostname.replace('-pooler', ''), uri.hostname)
    assert.notEqual(pooled.hostname, uri.hostname)
    for (const kind of [[], ['--pooled']]) {
      const said = await cli.text('psql', ...into, ...kind, '--', '-XAtc', 'select current_user, current_database()')
      assert.equal(said.trim().split('\n').at(-1), 'helper|more')
    }

    await cli.json('databases', 'delete', 'more', '--branch', 'dev')
    await cli.json('roles', 'delete', 'helper', '--branch', 'dev')
    const operations = await cli.json<Operation[]>('operations', 'list')
    assert.equal(operations.at(-1)?.action, 'create_timeline')
    await quiet(project.id)
    await cli.json('branches', 'delete', 'dev')
    assert.deepEqual(names(await cli.json<Branch[]>('branches', 'list')), ['main'])
    await quiet(project.id)
    assert.equal((await cli.json<Project>('projects', 'delete', project.id)).id, project.id)
    await quiet(project.id)
    assert.equal((await cli.run(['projects', 'get', project.id])).code, 1)
  })
