import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { refused, type Request, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, operationsOf, type Place } from '../project.ts'

/* Branches over the API: list, name, protect, delete. */

let neap: Neap
let place: Place
let branches: string

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  branches = `/projects/${place.project_id}/branches`
})

after(() => neap?.stop())

const http = (method: string, path: string, request?: Request) => send(neap, method, path, request)

interface Branch {
  readonly id: string
  readonly name: string
  readonly parent_id?: string
  readonly default: boolean
  readonly primary: boolean
  readonly protected: boolean
  readonly current_state: string
  readonly pending_state?: string
  readonly expires_at?: string
  readonly ttl_interval_seconds?: number
  readonly created_at: string
  readonly updated_at: string
}

interface Made {
  readonly branch: Branch
  readonly endpoints: { id: string; current_state: string; pending_state?: string }[]
  readonly operations: { id: string; project_id: string; action: string; status: string }[]
}

interface Page {
  readonly branches: Branch[]
  readonly annotations: Record<string, { object: object; value: object }>
  readonly pagination?: { next?: string; sort_by: string; sort_order: string }
}

/** Sends a change that must succeed, and waits for its operations. */
async function change(method: string, path: string, body?: unknown): Promise<Made> {
  const answer = await http(method, path, body === undefined ? {} : { body })
  assert.equal(answer.status, method === 'POST' && path === branches ? 201 : 200, answer.body.message)
  const made = answer.body as unknown as Made
  await neap.ended(made.operations)
  return made
}

const create = async (branch: object) => (await change('POST', branches, { branch })).branch
const patch = (id: string, branch: object) => http('PATCH', `${branches}/${id}`, { body: { branch } })

async function page(asked: Record<string, string>): Promise<Page> {
  const { status, body } = await http('GET', `${branches}?${new URLSearchParams(asked).toString()}`)
  assert.equal(status, 200, body.message)
  return body as unknown as Page
}

const read = async (id: string) => (await http('GET', `${branches}/${id}`)).body['branch'] as Branch
const actionsOf = ({ operations }: Made) => operations.map(({ action }) => action)

test('branches are listed in any order and page size, each exactly once', async () => {
  for (const name of ['cedar', 'Ash', 'birch', 'elm', 'döll']) await create({ name })
  // Makes the order of updates differ from that of names and of creation.
  for (const name of ['elm', 'Ash']) {
    const [found] = (await page({ search: name })).branches
    await patch(found?.id ?? '', { protected: false })
  }
  const { branches: all } = await page({})
  assert.equal(all.length, 6)
  for (const sort_by of ['name', 'created_at', 'updated_at'] as const) {
    const ascending = all.map((each) => each[sort_by]).sort()
    assert.equal(new Set(ascending).size, all.length)
    for (const sort_order of ['asc', 'desc'])
      for (const limit of ['1', '4', '6', '7']) {
        const seen: string[] = []
        let cursor: string | undefined
        do {
          const found = await page({ sort_by, sort_order, limit, ...(cursor && { cursor }) })
          assert.ok(found.branches.length <= Number(limit))
          if (found.branches.length > 0)
            assert.deepEqual(
              [found.pagination?.sort_by, found.pagination?.sort_order],
              [sort_by, sort_order.toUpperCase()],
            )
          seen.push(...found.branches.map((each) => each[sort_by]))
          cursor = found.pagination?.next
        } while (cursor !== undefined)
        assert.deepEqual(seen, sort_order === 'asc' ? ascending : ascending.toReversed(), `${sort_by} by ${limit}`)
      }
  }
  // The default order: by last change, newest first. A cursor keeps the order of its first page.
  const idsOf = (listed: readonly { id: string }[]) => listed.map(({ id }) => id)
  assert.deepEqual(idsOf(all), idsOf((await page({ sort_by: 'updated_at', sort_order: 'desc' })).branches))
  const { pagination } = await page({ sort_by: 'name', sort_order: 'asc', limit: '2' })
  const next = await page({ sort_by: 'created_at', cursor: pagination?.next ?? '', limit: '2' })
  assert.deepEqual(
    next.branches.map(({ name }) => name),
    all
      .map(({ name }) => name)
      .sort()
      .slice(2, 4),
  )
  for (const wrong of ['limit=0', 'limit=10001', 'sort_by=size', 'sort_order=up', 'cursor=x', 'cursor=e30%3D'])
    refused(await http('GET', `${branches}?${wrong}`), 400, 'INVALID_REQUEST', new RegExp(wrong.split('=')[0] ?? ''))
})

test('branches are searched and counted by name or id, in any case', async () => {
  const count = async (search: string) =>
    (await http('GET', `${branches}/count?${new URLSearchParams({ search }).toString()}`)).body['count']
  const { id } = await create({ name: 'Needle 100%_sure' })
  for (const search of ['needle', 'NEEDLE 100%', '%_s', id, id.slice(3, 12)]) {
    assert.deepEqual(
      (await page({ search })).branches.map((branch) => branch.id),
      [id],
      search,
    )
    assert.equal(await count(search), 1)
  }
  assert.deepEqual(await page({ search: '%needle' }), { branches: [], annotations: {} })
  assert.equal(await count('%needle'), 0)
  assert.equal((await http('GET', `${branches}/count`)).body['count'], (await page({})).branches.length)
  await change('DELETE', `${branches}/${id}`)
  assert.equal(await count('needle'), 0)
})

test('the annotations of a branch are kept and listed with it', async () => {
  const annotation_value = { 'pull request': '7', by: 'ünal' }
  const { branch } = await change('POST', branches, { annotation_value })
  const { annotations, branches: listed } = await page({})
  assert.ok(listed.length > 1)
  assert.deepEqual(Object.keys(annotations), [branch.id])
  const { annotation } = (await http('GET', `${branches}/${branch.id}`)).body as unknown as {
    annotation: Page['annotations'][string]
  }
  assert.deepEqual(annotation, annotations[branch.id])
  assert.deepEqual([annotation.value, annotation.object], [annotation_value, { type: 'console/branch', id: branch.id }])
  await change('DELETE', `${branches}/${branch.id}`)
})

test('a branch is renamed, except to a name that is taken', async () => {
  const one = await create({ name: 'one' })
  const renamed = await change('PATCH', `${branches}/${one.id}`, { branch: { name: 'two' } })
  assert.deepEqual([renamed.branch.name, renamed.branch.id, renamed.operations], ['two', one.id, []])
  assert.equal((await read(one.id)).name, 'two')
  refused(await patch(one.id, { name: 'main' }), 409, 'BRANCH_ALREADY_EXISTS', /branch_name:"main"/)
  assert.equal((await change('PATCH', `${branches}/${one.id}`, { branch: { name: 'two' } })).branch.name, 'two')
  const taken = { body: { branch: { name: 'two' } } }
  refused(await http('POST', branches, taken), 409, 'BRANCH_ALREADY_EXISTS', /branch_name:"two"/)
  await change('DELETE', `${branches}/${one.id}`)
  // The names `two` and `one` are both free again.
  for (const name of ['one', 'two']) await change('DELETE', `${branches}/${(await create({ name })).id}`)
})

test('a protected branch, the default branch and a branch with children are not deleted', async () => {
  const remove = (id: string) => http('DELETE', `${branches}/${id}`)
  refused(await remove(place.branch_id), 422, 'NOT_ALLOWED', /default branch/)
  const parent = await create({ name: 'parent', protected: true })
  assert.deepEqual([parent.protected, parent.parent_id, parent.default], [true, place.branch_id, false])
  refused(await remove(parent.id), 422, 'NOT_ALLOWED', /protected/)
  await change('PATCH', `${branches}/${parent.id}`, { branch: { protected: false } })
  const child = await create({ name: 'child', parent_id: parent.id })
  assert.equal(child.parent_id, parent.id)
  refused(await remove(parent.id), 422, 'NOT_ALLOWED', new RegExp(`has children: child \\(${child.id}\\)`))
  for (const { id } of [child, parent]) {
    assert.deepEqual(actionsOf(await change('DELETE', `${branches}/${id}`)), ['delete_timeline'])
    for (const method of ['GET', 'DELETE', 'PATCH'])
      refused(
        await http(method, `${branches}/${id}`, method === 'PATCH' ? { body: { branch: {} } } : {}),
        404,
        'NOT_FOUND',
        new RegExp(`^branch ${id} not found$`),
      )
  }
})

test('a new default branch is the parent of new branches, and the old default can be deleted', async () => {
  const next = await create({ name: 'next' })
  const made = await change('POST', `${branches}/${next.id}/set_as_default`)
  assert.deepEqual(
    [made.branch.id, made.branch.default, made.branch.primary, made.operations],
    [next.id, true, true, []],
  )
  assert.deepEqual(
    (await page({})).branches.filter((branch) => branch.default).map(({ id }) => id),
    [next.id],
  )
  refused(await http('DELETE', `${branches}/${next.id}`), 422, 'NOT_ALLOWED', /default/)
  const grandchild = await create({})
  assert.deepEqual([grandchild.parent_id, grandchild.name], [next.id, grandchild.id])
  refused(await http('DELETE', `${branches}/${place.branch_id}`), 422, 'NOT_ALLOWED', /has children/)
  await change('DELETE', `${branches}/${grandchild.id}`)
  await change('POST', `${branches}/${place.branch_id}/set_as_default`)
  await change('DELETE', `${branches}/${next.id}`)
})

test('a branch is deleted when it expires, unless its expiration was removed', async () => {
  const soon = () => new Date(Date.now() + 5000).toISOString()
  // It expires before the other branch, so that the loop that deletes the other one would have found this one too.
  const kept = await create({ name: 'kept', expires_at: soon() })
  const taken_back = await change('PATCH', `${branches}/${kept.id}`, { branch: { expires_at: null } })
  assert.deepEqual(['expires_at' in taken_back.branch, 'ttl_interval_seconds' in taken_back.branch], [false, false])
  const made = await change('POST', branches, {
    branch: { name: 'brief', expires_at: soon() },
    endpoints: [{ type: 'read_write' }],
  })
  const { id, expires_at, ttl_interval_seconds = 0 } = made.branch
  assert.ok(ttl_interval_seconds >= 1 && ttl_interval_seconds <= 5)
  await until('the branch expires', async () => (await http('GET', `${branches}/${id}`)).status === 404)
  assert.ok(Date.now() >= Date.parse(expires_at ?? ''))
  refused(
    await http('GET', `/projects/${place.project_id}/endpoints/${made.endpoints[0]?.id}`),
    404,
    'NOT_FOUND',
    /ep-/,
  )
  const removal = (await operationsOf(neap, place)).filter(({ branch_id }) => branch_id === id).slice(0, 2)
  assert.deepEqual(
    removal.map(({ action }) => action),
    ['delete_timeline', 'suspend_compute'],
  )
  await neap.ended(removal)
  assert.equal((await read(kept.id)).name, 'kept')

  const past = { expires_at: '2020-01-01T00:00:00Z' }
  refused(await patch(kept.id, past), 422, 'NOT_ALLOWED', /over already/)
  refused(await http('POST', branches, { body: { branch: past } }), 422, 'NOT_ALLOWED', /over already/)
  const far = { expires_at: new Date(Date.now() + 31 * 86_400_000).toISOString() }
  refused(await patch(kept.id, far), 422, 'NOT_ALLOWED', /more than 30 days/)
  refused(await patch(kept.id, { expires_at: 'tomorrow' }), 400, 'INVALID_REQUEST', /branch\.expires_at/)
  refused(await patch(place.branch_id, { expires_at: soon() }), 422, 'NOT_ALLOWED', /cannot expire/)
  const later = { expires_at: new Date(Date.now() + 3_600_000).toISOString() }
  refused(await patch(kept.id, { ...later, protected: true }), 422, 'NOT_ALLOWED', /cannot expire/)
  await change('PATCH', `${branches}/${kept.id}`, { branch: later })
  refused(await patch(kept.id, { protected: true }), 422, 'NOT_ALLOWED', /expires_at: null/)
  refused(await http('POST', `${branches}/${kept.id}/set_as_default`), 422, 'NOT_ALLOWED', /expires_at: null/)
  await change('DELETE', `${branches}/${kept.id}`)
})

test('a project gives its branches a time, and a reset begins it anew', async () => {
  const project = `/projects/${place.project_id}`
  await change('PATCH', project, { project: { settings: { branch_ttl_seconds: 3600 } } })
  const timed = await create({ name: 'timed' })
  assert.equal(timed.ttl_interval_seconds, 3600)
  for (const asked of [
    { name: 'endless', expires_at: null },
    { name: 'safe', protected: true },
  ]) {
    const { branch } = await change('POST', branches, { branch: asked })
    assert.equal(branch.expires_at, undefined)
    await change('PATCH', `${branches}/${branch.id}`, { branch: { protected: false } })
    await change('DELETE', `${branches}/${branch.id}`)
  }
  const asked = new Date(Date.now() + 7_200_000).toISOString()
  await change('PATCH', `${branches}/${timed.id}`, { branch: { expires_at: asked } })
  await change('PATCH', `${branches}/${timed.id}`, { branch: { name: 'timed again' } })
  assert.ok(Math.abs(((await read(timed.id)).ttl_interval_seconds ?? 0) - 7_200) <= 5)
  await change('POST', `${branches}/${timed.id}/reset_to_parent`)
  const { expires_at = '' } = await read(timed.id)
  assert.ok(Date.parse(expires_at) > Date.parse(asked), expires_at)
  await change('PATCH', project, { project: { settings: { branch_ttl_seconds: 0 } } })
  assert.equal((await create({ name: 'without' })).expires_at, undefined)
  await change('DELETE', `${branches}/${timed.id}`)
})

test('a branch is created with a compute, or without one and gets it later', async () => {
  const bare = await change('POST', branches, { branch: { name: 'bare' } })
  assert.deepEqual([actionsOf(bare), bare.endpoints], [['create_branch'], []])
  assert.deepEqual([bare.branch.current_state, bare.branch.pending_state], ['init', 'ready'])
  assert.deepEqual(
    [(await read(bare.branch.id)).current_state, (await read(bare.branch.id)).pending_state],
    ['ready', undefined],
  )
  const body = { endpoint: { branch_id: bare.branch.id, type: 'read_write' } }
  const given = await http('POST', `/projects/${place.project_id}/endpoints`, { body })
  assert.equal(given.status, 201, given.body.message)
  const { endpoint, operations } = given.body as unknown as {
    endpoint: Made['endpoints'][number]
    operations: Made['operations']
  }
  assert.deepEqual(
    [operations.map(({ action }) => action), endpoint.current_state, endpoint.pending_state],
    [['start_compute'], 'init', 'active'],
  )
  await neap.ended(operations)
  const uri = place.uri.replace(place.endpoint_id, endpoint.id)
  assert.deepEqual(await query(neap, uri, 'select 1 as one'), [{ one: 1 }])
  const two = { endpoints: [{ type: 'read_write' }, { type: 'read_write' }] }
  refused(await http('POST', branches, { body: two }), 409, 'ENDPOINTS_LIMIT_EXCEEDED', /already exists/)
  const deletion = await change('DELETE', `${branches}/${bare.branch.id}`)
  assert.deepEqual(actionsOf(deletion), ['suspend_compute', 'delete_timeline'])
})

test('requests that depend on a new branch may be sent at once', async () => {
  const made = await http('POST', branches, {
    body: { branch: { name: 'quick' }, endpoints: [{ type: 'read_write' }] },
  })
  const { branch, endpoints, operations } = made.body as unknown as Made
  assert.deepEqual(
    operations.map(({ action, status }) => [action, ['scheduling', 'running'].includes(status)]),
    [
      ['create_branch', true],
      ['start_compute', true],
    ],
  )
  const database = { name: 'right behind', owner_name: 'neondb_owner' }
  const added = await http('POST', `${branches}/${branch.id}/databases`, { body: { database } })
  assert.equal(added.status, 201, added.body.message)
  const child = await http('POST', branches, { body: { branch: { parent_id: branch.id } } })
  assert.equal(child.status, 201, child.body.message)
  await neap.ended((added.body as unknown as Made).operations)
  const uri = new URL(place.uri.replace(place.endpoint_id, endpoints[0]?.id ?? ''))
  uri.pathname = '/right%20behind'
  assert.deepEqual(await query(neap, uri.href, 'select current_database() as name'), [{ name: 'right behind' }])
  await neap.ended((child.body as unknown as Made).operations)
  const { id } = (child.body as unknown as Made).branch
  const { databases } = (await http('GET', `${branches}/${id}/databases`)).body as unknown as {
    databases: { name: string }[]
  }
  assert.deepEqual(databases.map(({ name }) => name).sort(), ['neondb', 'right behind'])
})

test('of concurrent requests for the same name or endpoint one succeeds', async () => {
  const CONCURRENT = 8
  const atOnce = (ask: (number: number) => ReturnType<typeof http>) =>
    Promise.all(Array.from({ length: CONCURRENT }, (_, number) => ask(number)))
  /** Asserts that one request succeeded and the others were refused; returns the successful one. */
  const onlyOne = async (answers: Awaited<ReturnType<typeof http>>[], code: string): Promise<Made> => {
    const taken = answers.filter(({ status }) => status < 300)
    assert.equal(taken.length, 1)
    for (const answer of answers) if (answer.status >= 300) refused(answer, 409, code, /already exists/)
    const made = taken[0]?.body as unknown as Made
    await neap.ended(made.operations)
    return made
  }
  const named = { body: { branch: { name: 'wanted' } } }
  const { branch } = await onlyOne(await atOnce(() => http('POST', branches, named)), 'BRANCH_ALREADY_EXISTS')
  const endpoints = `/projects/${place.project_id}/endpoints`
  const on = { body: { endpoint: { branch_id: branch.id, type: 'read_write' } } }
  await onlyOne(await atOnce(() => http('POST', endpoints, on)), 'ENDPOINTS_LIMIT_EXCEEDED')

  const free = await create({ name: 'free' })
  const { endpoints: all } = (await http('GET', endpoints)).body as unknown as Made
  assert.ok(all.length > 1)
  const move = { body: { endpoint: { branch_id: free.id } } }
  const movers = await Promise.all(all.map(({ id }) => http('PATCH', `${endpoints}/${id}`, move)))
  await onlyOne(movers, 'ENDPOINTS_LIMIT_EXCEEDED')
})
