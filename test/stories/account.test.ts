import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { refused, send } from '../http.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { firstPlace, type Place, suspend } from '../project.ts'

/* The plan, the limits and the quotas of an account. */

let neap: Neap
let place: Place
/** Only the first start prints it. */
let key: string

before(async () => {
  neap = await startNeap()
  key = neap.ready.api_key ?? ''
  place = await firstPlace(neap)
})

after(() => neap?.stop())

async function account(...args: string[]): Promise<string> {
  const { data_dir } = neap.ready
  const { stdout, stderr, code } = await neapRun(['account', ...args, '--data-dir', data_dir], envOf(data_dir))
  assert.equal(code, 0, stderr)
  return stdout
}

const create = () => send(neap, 'POST', '/projects', { key, body: { project: {} } })

test('an account shows its plan, its limits and what it has used', async () => {
  await query(neap, place.uri, 'select pg_sleep(1.1)')
  await suspend(neap, place)
  const shown = await account('get')
  assert.match(shown, /^PLAN +paid$/m)
  assert.match(shown, /^PROJECTS +1 of 1000$/m)
  assert.match(shown, /^COMPUTES RAN +[1-9]\d* s$/m)
})

test('limits hold at once for keys that are in use, and end with the default', async () => {
  await account('update', '--projects-limit', '1', '--plan', 'free')
  refused(await create(), 422, 'PROJECTS_LIMIT_EXCEEDED', /may have 1 projects.*neap account/)
  const { project_id } = place
  const { limits } = await neap.call('GET /projects/:project_id/limits', { params: { project_id } })
  assert.equal(limits.max_autoscaling_cu, 0.25)
  await account('update', '--branches-limit', '1')
  const branch = await send(neap, 'POST', `/projects/${project_id}/branches`, { key, body: {} })
  refused(branch, 422, 'BRANCHES_LIMIT_EXCEEDED', /may have 1 branches/)
  const shown = await account(
    'update',
    '--projects-limit',
    'default',
    '--branches-limit',
    'default',
    '--plan',
    'default',
  )
  assert.match(shown, /^PLAN +paid$/m)
  assert.match(shown, /^PROJECTS +1 of 1000$/m)
})

test('who changes a limit reads it at once', async () => {
  for (let limit = 30; limit < 60; limit += 1) {
    const body = { account: { projects_limit: limit } }
    const options = { key: neap.ready.api_key }
    assert.equal((await send(neap, 'PATCH', '/account', { ...options, body })).status, 200)
    const { account: read } = (await send(neap, 'GET', '/account', options)).body as {
      account?: { projects_limit: number }
    }
    assert.equal(read?.projects_limit, limit)
  }
  await account('update', '--projects-limit', 'default')
})

test('a plan that was set outlives a restart', async () => {
  await account('update', '--plan', 'free')
  const dataDir = neap.ready.data_dir
  await neap.stop({ keep: true })
  neap = await startNeap({ dataDir })
  assert.match(await account('get'), /^PLAN +free$/m)
  await account('update', '--plan', 'default')
  assert.equal((await send(neap, 'GET', '/users/me', { key })).body['plan'], 'paid')
})

test('an account that has used up a quota starts no compute, in any of its projects', async () => {
  await query(neap, place.uri, 'select 1')
  await suspend(neap, place)
  const shown = await account('update', '--active-time', '1', '--written-data', '5GiB')
  assert.match(shown, /^COMPUTES RAN +[1-9]\d* of 1 s$/m)
  assert.match(shown, /^USED UP +active_time_seconds$/m)
  const message = /^Your account or project has exceeded the compute time quota\. .*account setting quota\.active_time/
  await assert.rejects(query(neap, place.uri, 'select 1'), { message, code: '53400' })
  await account('update', '--active-time', '10h')
  await query(neap, place.uri, 'select 1')
  await account('update', '--active-time', '1')
  // The worker looks at once, and then every minute.
  await kill(neap.part('worker'))
  await until('it is suspended', async () => {
    const { endpoints } = await neap.call('GET /projects/:project_id/endpoints', {
      params: { project_id: place.project_id },
    })
    return endpoints.every(({ current_state }) => current_state === 'idle')
  })
  await account('update', '--active-time', 'none')
  await query(neap, place.uri, 'select 1')
})

test('a key of less than the account does not change it, and wrong amounts are refused', async () => {
  for (const restriction of [{ scope: 'write' as const }, { scope: 'admin' as const, project_id: place.project_id }]) {
    const made = await neap.call('POST /api_keys', { body: { key_name: 'restricted', ...restriction } })
    const answer = await send(neap, 'PATCH', '/account', { key: made.key, body: { account: { plan: 'paid' } } })
    assert.equal(answer.status, 403)
  }
  const { code, stderr } = await neapRun(
    ['account', 'update', '--written-data', '5 GB', '--data-dir', neap.ready.data_dir],
    envOf(neap.ready.data_dir),
  )
  assert.deepEqual([code, /a size like 200G or 512M/.test(stderr)], [1, true])
})
