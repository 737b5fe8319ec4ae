import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { type ApiResponse, makeClient } from '../../src/client.ts'
import { envOf, type Neap, neapRun, type Ran, run, startNeap } from '../neap.ts'
import { without } from '../clients.ts'
import { until } from '../processes.ts'
import { firstPlace, operationsOf, type Place } from '../project.ts'
import { type Transcript, transcript } from './golden.ts'

let started: Neap
let place: Place

before(async () => {
  started = await startNeap()
  place = await firstPlace(started)
})
after(() => started.stop())

/** A transcript that is compared with its golden file at the end. */
function conversation(name: string, hold: (neap: Transcript['neap']) => Promise<void>): void {
  void test(name, async () => {
    const { neap, compare } = transcript(name, started)
    await hold(neap)
    compare()
  })
}

const json = (ran: Ran): unknown => JSON.parse(ran.stdout)

conversation('projects', async (neap) => {
  await neap('projects list')
  const { pagination: _, ...projects } = await started.call('GET /projects', {})
  assert.deepEqual(json(await neap('projects list --json')), projects)
  await neap('projects list --search nothing')
  await neap('projects get')
  const { project_id } = place
  const got = json(await neap('projects get first --json')) as ApiResponse<'GET /projects/:project_id'>
  const { project } = await started.call('GET /projects/:project_id', { params: { project_id } })
  // It grows with time.
  const { data_storage_bytes_hour } = project
  assert.deepEqual({ ...got.project, data_storage_bytes_hour }, project)
  await neap('projects get nobody')
  await neap('projects get calm-reef-00000000')
  await neap('projects create shop --pg-version 18 --branch trunk --database goods --role keeper --cu 0.5 --wait')
  await neap('projects get shop')
  await neap('projects update shop --name store --cu 1-2 --suspend-timeout never')
  await neap('projects update store --name shop --json')
  await neap('projects update shop')
  await neap('branches list')
  await neap('branches list --project shop')
  await neap('projects create shop --json')
  await neap(['operations', 'wait', '--project', await idOf(1), '--json'])
  await neap('projects delete shop')
  for (const index of [1, 0]) await neap(['projects', 'delete', await idOf(index), '--yes'])
  await neap('projects delete shop')

  async function idOf(index: number): Promise<string> {
    const { projects: all } = await started.call('GET /projects', { query: { limit: 100, search: 'shop' } })
    const id = all.sort((one, other) => one.created_at.localeCompare(other.created_at))[index]?.id
    return id ?? assert.fail('there is no such project')
  }
})

conversation('branches', async (neap) => {
  await neap('branches list')
  await neap('branches create pr-1 --wait')
  await neap('branches create pr-2 --parent pr-1 --no-endpoint --wait')
  await neap('branches create pr-1')
  await neap('branches list')
  const listed = json(await neap('branches list --json')) as { branches: { id: string }[] }
  const { branches } = await started.call('GET /projects/:project_id/branches', {
    params: { project_id: place.project_id },
    query: { limit: 100, sort_by: 'created_at', sort_order: 'asc' },
  })
  assert.deepEqual(listed.branches, branches)
  await neap('branches get')
  await neap('branches get pr-1')
  await neap('branches get pr-1 --json')
  await neap('branches get pr-9')
  await neap('branches get br-calm-reef-00000000')
  await neap('branches reset pr-2 --wait')
  await neap('branches restore pr-2 main --wait')
  await neap('branches restore pr-2 pr-1 --preserve-under-name pr-2-before --wait --json')
  await neap('branches rename pr-2-before kept')
  await neap('branches rename kept main')
  await neap('branches update kept --protect')
  await neap('branches delete kept')
  await neap('branches update kept --unprotect --expires 7d')
  await neap('branches list')
  await neap('branches set-default kept')
  await neap('branches update kept --expires never --json')
  await neap('branches update kept')
  await neap('branches set-default kept --json')
  await neap('branches set-default main')
  await neap('branches reset main')
  await neap('branches delete main')
  await neap('branches delete pr-1')
  await neap('branches delete kept --wait --json')
  await neap('branches delete')
})

conversation('endpoints', async (neap) => {
  await neap('endpoints list')
  const { project_id, endpoint_id } = place
  assert.deepEqual(
    json(await neap('endpoints list --json')),
    await started.call('GET /projects/:project_id/endpoints', { params: { project_id } }),
  )
  await neap('endpoints get pr-1')
  assert.deepEqual(
    json(await neap('endpoints get --json')),
    await started.call('GET /projects/:project_id/endpoints/:endpoint_id', { params: { project_id, endpoint_id } }),
  )
  await neap('endpoints suspend pr-1 --wait')
  await neap('endpoints suspend pr-1 --wait')
  await neap('endpoints activity pr-1')
  await neap('endpoints activity pr-1 --json')
  await neap('endpoints start pr-1 --wait')
  const restarted = json(await neap('endpoints suspend pr-1 --wait --json')) as { endpoint: { current_state: string } }
  assert.equal(restarted.endpoint.current_state, 'idle', 'an answer that was waited for is of now')
  await neap('endpoints update pr-1 --name office --suspend-timeout 300')
  await neap('endpoints update office --disable --wait')
  await neap('endpoints start office')
  await neap('endpoints update office --enable')
  await neap('endpoints update office')
  await neap('endpoints update office --suspend-timeout 1')
  await neap('endpoints update office --pg-setting work_mem=8MB --pg-setting random_page_cost=1.1 --wait')
  await neap('endpoints update office --pg-setting work_mem= --cu 0.5 --wait')
  await neap('endpoints update office --pg-setting ssl=off')
  await neap('endpoints restart office --wait')
  await neap('endpoints update office --move-to pr-2 --wait --json')
  await neap('endpoints get pr-2')
  await neap('endpoints update office --move-to main')
  await neap('endpoints update office --move-to pr-1 --wait --json')
  await neap('endpoints get ep-calm-reef-00000000')
  await neap('endpoints delete office')
  await neap('endpoints get pr-1')
  await neap('endpoints create pr-1 --cu 1-2 --suspend-timeout never --pg-setting work_mem=8MB --wait')
  await neap('endpoints create pr-1')
  await neap('endpoints list')
  await neap('endpoints delete pr-1 --json')
  await neap('branches delete pr-2 --wait')
})

conversation('roles', async (neap) => {
  await neap('roles list')
  await neap('roles create ann --wait')
  await neap('roles create ann')
  await neap('roles create crew --no-login --wait')
  await neap(['roles', 'create', 'we"ird;\tdrop', '--wait', '--json'])
  await neap('roles list')
  await neap('roles list --json')
  await neap('roles list --branch pr-1')
  await neap('roles reveal-password ann')
  const { password: first } = json(await neap('roles reveal-password ann --json')) as { password: string }
  await neap('roles reset-password ann --wait')
  const { password } = json(await neap('roles reveal-password ann --json')) as { password: string }
  assert.notEqual(password, first)
  await neap('roles reveal-password crew')
  await neap('roles delete neondb_owner')
  await neap(['roles', 'delete', 'we"ird;\tdrop', '--wait'])
  await neap('roles delete crew --wait')
  await neap('roles delete nobody')
})

conversation('databases', async (neap) => {
  await neap('databases list')
  await neap('connection-string')
  await neap('connection-string pr-1')
  await neap('databases create shop')
  await neap('databases create shop --owner ann --wait')
  await neap('databases list')
  await neap('databases list --json')
  await neap('connection-string')
  await neap('connection-string --database shop --pooled')
  await neap('connection-string main --database neondb --role ann --json')
  await neap('connection-string --database none')
  await neap('databases update shop --name store --owner neondb_owner --wait')
  await neap('databases update store')
  await neap('branches schema --database nothing')
  await neap('databases delete store --wait')
  await neap('databases delete store')
  await neap('roles delete ann --wait')
})

conversation('operations', async (neap) => {
  await neap('operations list --endpoint main')
  await neap('operations list --action start_compute --limit 1 --endpoint main')
  await neap('operations list --branch pr-1 --action create_branch --status finished')
  await neap('operations list --status failed')
  const all = json(await neap('operations list --all --json')) as { operations: { id: string }[] }
  assert.deepEqual(
    all.operations.map(({ id }) => id),
    (await operationsOf(started, place)).map(({ id }) => id),
  )
  const [newest] = all.operations
  await neap(['operations', 'get', newest?.id ?? ''])
  await neap(['operations', 'get', newest?.id ?? '', '--json'])
  await neap('operations get one')
  await neap('operations wait')
})

conversation('waiting', async (neap) => {
  // A frozen worker starts no operation.
  const worker = started.part('worker') ?? assert.fail('no worker runs')
  process.kill(worker, 'SIGSTOP')
  try {
    await neap('endpoints suspend --timeout 1')
    const [suspend] = await operationsOf(started, place)
    await neap('operations wait --timeout 1')
    await neap('operations list --status scheduling')
    await neap(['operations', 'cancel', suspend?.id ?? ''])
    await neap(['operations', 'cancel', suspend?.id ?? ''])
    await neap(['operations', 'wait', suspend?.id ?? ''])
    await neap(['operations', 'wait', suspend?.id ?? '', '--json'])
    await neap('operations list --status failed')
  } finally {
    process.kill(worker, 'SIGCONT')
  }
})

conversation('keys', async (neap) => {
  await neap('keys list')
  await neap('keys create')
  await neap('key create ci --scope write --expires 7d')
  const made = json(await neap('keys create one --scope read --project first --json')) as { id: number; key: string }
  await neap('key list')
  await neap('keys list --json')
  const { api_url } = started.ready
  const remote = { NEAP_API_URL: api_url, NEAP_API_KEY: made.key }
  await neap('branches list --project first', remote)
  await neap('branches create --project first', remote)
  await neap(['projects', 'list', '--api-url', new URL(api_url).origin], {
    NEAP_API_KEY: started.ready.api_key ?? '',
  })
  await neap(['keys', 'revoke', String(made.id)])
  await neap(['key', 'revoke', String(made.id)])
  await neap('branches list --project first', remote)
})

conversation('webhooks', async (neap) => {
  await neap('webhooks list')
  await neap('webhooks create https://receiver.invalid/neap --events branch.ready,operation.failed')
  await neap('webhook create https://receiver.invalid/one --events endpoint.idle --project first --json')
  await neap('webhooks create https://receiver.invalid/ --events all')
  await neap('webhooks create http://receiver.invalid/ --events branch.ready')
  await neap('webhooks create https://receiver.invalid/')
  await neap('webhooks list')
  const { webhooks } = json(await neap('webhooks list --json')) as { webhooks: { id: string }[] }
  const [{ id } = { id: '' }] = webhooks
  await neap(['webhooks', 'get', id])
  await neap('webhooks get one')
  await neap(['webhooks', 'deliveries', id])
  await neap([
    'webhooks',
    'update',
    id,
    '--url',
    'https://receiver.invalid/two',
    '--events',
    'branch.deleted',
    '--disable',
  ])
  await neap(['webhooks', 'test', id])
  await neap(['webhooks', 'update', id, '--project', 'first', '--enable'])
  await neap(['webhooks', 'update', id, '--all-projects', '--json'])
  await neap(['webhooks', 'rotate-secret', id])
  const tested = json(await neap(['webhooks', 'test', id, '--json'])) as { delivery: { id: string } }
  await until('a failure', async () => {
    const params = { webhook_id: id }
    const { deliveries } = await started.call('GET /webhooks/:webhook_id/deliveries', { params, query: { limit: 1 } })
    return deliveries[0]?.error !== undefined
  })
  await neap(['webhooks', 'deliveries', id])
  await neap(['webhooks', 'redeliver', id, tested.delivery.id])
  await neap(['webhooks', 'delete', id])
  await neap(['webhooks', 'delete', id])
})

conversation('access', async (neap) => {
  await neap('projects list', { NEAP_API_URL: 'http://127.0.0.1:1' })
  await neap('projects list', { NEAP_API_URL: 'http://127.0.0.1:1', NEAP_API_KEY: 'neap_none' })
  await neap('projects list --api-url here --api-key neap_none')
  await neap('projects list --api-key neap_none')
  await neap('projects list --data-dir /nowhere')
  // A key alone, as the environment may have it for other programs, does not select another API.
  await neap('projects list', { NEAP_API_KEY: 'neap_none' })
})

test('the client waits on request, sends a key once, and rejects answers of another server', async () => {
  const { project_id, branch_id, endpoint_id } = place
  const params = { project_id, endpoint_id }
  const start = await started.call(
    'POST /projects/:project_id/endpoints/:endpoint_id/restart',
    { params },
    { wait: 60 },
  )
  assert.deepEqual(new Set(start.operations.map(({ status }) => status)), new Set(['finished']))

  const make = () =>
    started.call(
      'POST /projects/:project_id/branches/:branch_id/roles',
      { params: { project_id, branch_id }, body: { role: { name: 'once' } } },
      { idempotencyKey: 'make the role once' },
    )
  assert.deepEqual(await make(), await make())

  const other = createServer((_, response) => response.writeHead(502).end('<h1>Bad gateway</h1>')).listen(
    0,
    '127.0.0.1',
  )
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const call = makeClient({ url: `http://127.0.0.1:${port}`, key: 'neap_none' })
  await assert.rejects(
    call('GET /projects', { query: { limit: 1 } }),
    /answered 502 with a body that is not from this API/,
  )
  other.close()
})

/** The sequence that clears the rest of a terminal's line. */
const CLEARED = '\x1b[K'

test(
  'a deletion at a terminal asks for confirmation, and a wait shows its progress',
  {
    skip: without('script'),
  },
  async () => {
    const env = envOf(started.ready.data_dir)
    const typed = (words: string, answer: string) =>
      run('sh', ['-c', `printf '${answer}' | script -qec 'bin/neap ${words}' /dev/null`], env)
    const made = await typed('branches create asked --wait', '')
    const [, progress, ...more] = made.stdout.replaceAll(CLEARED, '').split('\r')
    assert.match(progress ?? '', /^… create_branch \(\d+ s\)$/)
    assert.ok(
      more.some((line) => line.startsWith('ID ')),
      'the line is gone when the table comes',
    )
    const no = await typed('branches delete asked', 'n\\n')
    assert.match(no.stdout, /Delete the branch asked with its endpoint\? \[y\/N\]/)
    assert.deepEqual([no.code, /neap: Nothing was changed\./.test(no.stdout)], [1, true])
    assert.equal((await typed('branches delete asked', '\\004')).code, 1, 'Ctrl-D is a no')
    const yes = await typed('branches delete asked', 'y\\n')
    assert.deepEqual([yes.code, /Deleted the branch asked/.test(yes.stdout)], [0, true])
    assert.equal((await neapRun(['branches', 'get', 'asked'], env)).code, 1)
  },
)
