import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { routes } from '../../src/http/routes/index.ts'
import { type Answer, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { type Actor, owner } from '../surface/account.ts'
import { requestOf } from '../surface/ask.ts'
import { EVERY_ROUTE, type Key } from '../surface/every_route.ts'
import { realScene, type Scene } from '../surface/scene.ts'
import { openState, type State, withoutWorker } from '../surface/state.ts'
import { type Field, fieldsOf, type Known } from './request_fields.ts'
import { plainKey, requestBodyOf } from './shipped_contract.ts'

/*
 * Every field of every request body in the document that the public client ships, for each operation of Neap: the field
 * is stored, and returned unchanged by the request itself, by GET and by the list; or it is refused with 422 and a
 * message that names it. The fields come from the document, so a newer document brings new ones. No worker runs,
 * because no test here needs a compute.
 */

let neap: Neap
let state: State
let actor: Actor
let scene: Scene
/** A branch without an endpoint. */
let free: string
let thaw: () => Promise<void>

before(async () => {
  const limits = ['ROLES', 'DATABASES', 'BRANCHES', 'PROJECTS'].map((what) => [`NEAP_${what}_LIMIT`, '1000'])
  const unlimited = ['RATE_LIMIT_PER_MINUTE', 'RATE_LIMIT_PER_SECOND', 'CPU_PER_KEY'].map((what) => [
    `NEAP_${what}`,
    '0',
  ])
  neap = await startNeap({ env: Object.fromEntries([...limits, ...unlimited]) as Record<string, string> })
  state = await openState(neap)
  actor = await owner(neap)
  const held = Promise.withResolvers<void>()
  const frozen = Promise.withResolvers<void>()
  const over = withoutWorker(neap, state, () => {
    frozen.resolve()
    return held.promise
  })
  thaw = () => {
    held.resolve()
    return over
  }
  await frozen.promise
  scene = await realScene(neap, actor, { waits: false })
  free = await scene.branch()
})

after(async () => {
  // Delete the projects before the worker runs, so that it does not start their operations.
  const { projects } = (await get('/projects?limit=400')) as { projects: { id: string }[] }
  for (const { id } of projects) await ask('DELETE', `/projects/${id}`)
  await thaw?.()
  await state?.close()
  await neap?.stop()
})

const ask = (method: string, path: string, body?: unknown) => send(neap, method, path, { key: actor.key, body })

async function get(path: string): Promise<unknown> {
  const { status, body } = await ask('GET', path)
  assert.equal(status, 200, `GET ${path}: ${body.message}`)
  return body
}

type Find = (made: unknown, given: unknown) => unknown

/** Fields that an answer has under another name or at another place than the request. */
const ELSEWHERE: Record<string, Record<string, Find>> = {
  'POST /api_keys': { key_name: (made) => at(made, 'name') },
  'POST /organizations/{}/api_keys': { key_name: (made) => at(made, 'name') },
  'POST /projects': {
    'project.branch': (made) => at(made, 'branch'),
    'project.branch.role_name': (made) => at(made, 'roles.0.name'),
    'project.branch.database_name': (made) => at(made, 'databases.0.name'),
    'project.branch.annotations': annotation,
    'project.autoscaling_limit_min_cu': (made) =>
      at(made, 'project.default_endpoint_settings.autoscaling_limit_min_cu'),
    'project.autoscaling_limit_max_cu': (made) =>
      at(made, 'project.default_endpoint_settings.autoscaling_limit_max_cu'),
  },
  'POST /projects/{}/branches': {
    'branch.archived': (made) => at(made, 'branch.current_state') === 'archived',
    annotation_value: annotation,
  },
  'POST /projects/{}/branch_anonymized': {
    branch_create: (made) => made,
    'branch_create.branch.archived': (made) => at(made, 'branch.current_state') === 'archived',
    annotation_value: annotation,
    masking_rules: async (made) => (await ofAnonymized(made, 'masking_rules'))['masking_rules'],
    start_anonymization: async (made) =>
      String((await ofAnonymized(made, 'anonymized_status'))['state']).startsWith('anonym'),
  },
  'POST /projects/{}/branches/{}/restore': {
    source_branch_id: (made) => at(made, 'branch.parent_id'),
    preserve_under_name: takenName,
  },
  'POST /projects/{}/branches/{}/finalize_restore': { name: takenName },
  'POST /projects/{}/snapshots/{}/restore': {
    name: (made) => at(made, 'branch.name'),
    target_branch_id: (made) => at(made, 'branch.restored_as'),
    // The answer is the target itself.
    finalize_restore: (made) => at(made, 'branch.restored_from') === undefined,
  },
  'POST /projects/{}/branches/{}/roles': {
    'role.no_login': (made) => at(made, 'role.authentication_method') === 'no_login',
  },
}

/** The name of a copy that keeps old data: it is taken from now on, but listed only later. */
async function takenName(_made: unknown, name: unknown): Promise<unknown> {
  const taken = await ask('POST', `/projects/${scene.project_id}/branches`, { branch: { name } })
  return taken.body.code === 'BRANCH_ALREADY_EXISTS' ? name : taken.body
}

async function ofAnonymized(made: unknown, what: string): Promise<Record<string, unknown>> {
  const { project_id, id } = at(made, 'branch') as { project_id: string; id: string }
  return (await get(`/projects/${project_id}/branches/${id}/${what}`)) as Record<string, unknown>
}

async function annotation(made: unknown): Promise<unknown> {
  const { project_id, id } = at(made, 'branch') as { project_id: string; id: string }
  return at(await get(`/projects/${project_id}/branches/${id}`), 'annotation.value')
}

/** Valid values of fields that the document does not specify in machine-readable form. */
function knownBeside(given: unknown): Known {
  return (path) => {
    const [name = '', within = ''] = path.toReversed()
    const values = (...all: unknown[]) => all.map((value) => ({ value }))
    // A rule has one of two more fields.
    if (path[0] === 'masking_rules' && /^(database|schema|table|column)_name$/.test(name))
      return [{ value: `a_${name}`, fields: { masking_value: '1' } }]
    if (name.endsWith('branch_id')) return values(at(given, path.join('.')) ?? free)
    if (name === 'project_id') return values(scene.project_id)
    if (name === 'parent_id') return values(scene.branch_id)
    if (name === 'owner_name') return values(scene.role)
    if (name.endsWith('_lsn')) return values('0/1A2B3C8')
    if (name.endsWith('_timestamp')) return values('2026-01-31T12:00:00Z')
    if (name === 'frequency') return values('hourly', 'daily', 'weekly', 'monthly', 'yearly')
    if (name === 'org_id') return values(scene.organization_id)
    if (name === 'region_id') return values('local', 'aws-us-east-2')
    if (/^(start|end)_time$/.test(name)) return values('02:30')
    if (within === 'weekdays') return values(1, 7)
    if (within === 'ips') return values('10.0.0.1', '10.0.0.0/8', 'fd00::/8')
    if (within === 'pg_settings') return values('work_mem', '8MB')
    const limit = /^autoscaling_limit_(min|max)_cu$/.exec(name)?.[1]
    if (!limit) return undefined
    const other = `autoscaling_limit_${limit === 'min' ? 'max' : 'min'}_cu`
    return [0.25, 2, 8, 0.3].map((value) => ({ value, fields: { [other]: value } }))
  }
}

const fieldsOfRoute = (route: string, given: unknown) =>
  fieldsOf(requestBodyOf(route) ?? {}, knownBeside(given)).filter(({ path }) => path.length > 0)

const asked = routes.map(({ key }) => key).filter((key) => requestBodyOf(plainName(key)))

test('the document describes the fields of most requests', () => {
  assert.ok(asked.length > 10, asked.join(', '))
})

for (const key of asked) {
  test(`${key}: every field is kept and returned, or refused by name`, async () => {
    const { body: given, path } = requestOf(key, scene, await EVERY_ROUTE[key].input(scene))
    const wrong: string[] = []
    let kept = 0
    for (const field of fieldsOfRoute(plainName(key), given)) {
      const request = requestOf(key, scene, await EVERY_ROUTE[key].input(scene))
      const answer = await ask(request.method, request.path, withField(request.body, field))
      const problem = await problemOf(key, request.path, field, answer)
      if (problem) wrong.push(`${field.path.join('.')} = ${JSON.stringify(field.value)}: ${problem}`)
      else if (answer.status < 300) kept++
    }
    assert.deepEqual(wrong, [])
    assert.ok(kept > 0, `${path} keeps something`)
  })
}

test('every field that is returned elsewhere is in the document', () => {
  for (const [route, places] of Object.entries(ELSEWHERE)) {
    const paths = fieldsOfRoute(route, undefined).map(({ path }) => path.join('.'))
    assert.deepEqual(
      Object.keys(places).filter((place) => !paths.includes(place)),
      [],
      route,
    )
  }
})

test('the check of fields detects dropped and changed fields, and refusals without a field name', async () => {
  const field = { path: ['project', 'settings', 'quota'], names: ['quota'], value: { bytes: 0 }, body: {} }
  const problem = (status: number, body: Record<string, unknown>) =>
    problemOf('POST /projects', '/projects', field, { status, headers: new Headers(), body })
  const shown = { id: scene.project_id, settings: {} }
  assert.match((await problem(201, { project: shown })) ?? '', /^the answer has undefined/)
  const changed = { ...shown, settings: { quota: { bytes: 1 } } }
  assert.match((await problem(201, { project: changed })) ?? '', /^the answer has \{"bytes":1\}/)
  const answered = { ...shown, settings: { quota: { bytes: 0, more: 1 } } }
  assert.match((await problem(201, { project: answered })) ?? '', /^GET has undefined/)
  assert.match((await problem(422, { message: 'no' })) ?? '', /^422 no/)
  assert.match((await problem(400, { message: 'no quota' })) ?? '', /^400/)
  assert.equal(await problem(422, { message: 'no quota' }), undefined)
})

/** The problem of an answer to a request with this field. Returns undefined when it is correct. */
async function problemOf(key: Key, path: string, field: Field, answer: Answer): Promise<string | undefined> {
  const { status, body } = answer
  if (status >= 300) {
    const isNamed = field.names.some((name) => body.message?.includes(name))
    return status === 422 && isNamed ? undefined : `${status} ${body.message}`
  }
  for (const [where, found] of await shownIn(key, path, field, body))
    if (!holds(found, field.value)) return `${where} has ${JSON.stringify(found)}`
  return undefined
}

/** The values of the field in the answer, in that of GET, and in the list. */
async function shownIn(
  key: Key,
  path: string,
  field: Field,
  made: unknown,
): Promise<[where: string, value: unknown][]> {
  const places = Object.keys(ELSEWHERE[plainName(key)] ?? {}).filter((place) =>
    `${field.path.join('.')}.`.startsWith(`${place}.`),
  )
  const place = places.sort((a, b) => b.length - a.length)[0]
  if (place !== undefined) {
    const found = await ELSEWHERE[plainName(key)]?.[place]?.(made, field.value)
    return [['the answer', at(found, field.path.slice(place.split('.').length).join('.'))]]
  }
  const [wrapper = '', ...inside] = field.path
  const answer = ['the answer', at(made, field.path.join('.'))] as [string, unknown]
  const thing = at(made, wrapper)
  const name = nameOf(key, thing)
  if (name === undefined) return [answer]
  const collection = key.startsWith('POST') ? path : path.slice(0, path.lastIndexOf('/'))
  const one = at(await get(`${collection}/${encodeURIComponent(name)}`), wrapper)
  const list = at(await get(`${collection}?limit=400`), collection.split('/').at(-1) ?? '') as unknown[]
  const listed = list.find((each) => nameOf(key, each) === name)
  return [answer, ['GET', at(one, inside.join('.'))], ['the list', at(listed, inside.join('.'))]]
}

/** The name or id of a resource that a request creates or changes. Returns undefined when it has no GET route. */
function nameOf(key: Key, thing: unknown): string | undefined {
  const [method = '', path = ''] = key.split(' ')
  const start = `GET ${method === 'POST' ? path : path.slice(0, path.lastIndexOf('/'))}/:`
  const item = routes.find((route) => route.key.startsWith(start) && !route.key.slice(start.length).includes('/'))
  return item && (at(thing, item.key.endsWith('_name') ? 'name' : 'id') as string | undefined)
}

function plainName(key: string): string {
  return plainKey(...(key.split(' ') as [string, string]))
}

/** The value at a path of names and indexes; the whole value for an empty path. */
function at(thing: unknown, path: string): unknown {
  const names = path.split('.').filter((name) => name !== '')
  return names.reduce(
    (found, name) => (isMap(found) || Array.isArray(found) ? Reflect.get(found, name) : undefined),
    thing,
  )
}

/**
 * Returns true when the found value equals the given one, or has additional fields. `null` means absent; times may have
 * another format.
 */
function holds(found: unknown, given: unknown): boolean {
  if (given === null) return found === undefined || found === null
  if (Array.isArray(given))
    return Array.isArray(found) && found.length === given.length && given.every((each, n) => holds(found[n], each))
  if (isMap(given)) return isMap(found) && Object.entries(given).every(([name, each]) => holds(found[name], each))
  if (typeof given === 'string' && /^\d{4}-\d\d-\d\dT/.test(given))
    return Date.parse(String(found)) === Date.parse(given)
  return found === given
}

/** A valid body with this field. */
const withField = (body: unknown, field: Field): unknown => put(merged(field.body, body), field.path, field.value)

function put(thing: unknown, [name, ...rest]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value
  if (Array.isArray(thing))
    return thing.map((each: unknown, index) => (String(index) === name ? put(each, rest, value) : each))
  return isMap(thing) ? { ...thing, [name]: put(thing[name], rest, value) } : { [name]: value }
}

/** Deep-merges `other` into `body`. */
function merged(body: unknown, other: unknown): unknown {
  if (Array.isArray(body) && Array.isArray(other)) return other.map((each, index) => merged(body[index], each))
  if (!isMap(body) || !isMap(other)) return other
  const names = new Set([...Object.keys(body), ...Object.keys(other)])
  return Object.fromEntries(
    [...names].map((name) => [name, name in other ? merged(body[name], other[name]) : body[name]]),
  )
}

function isMap(thing: unknown): thing is Record<string, unknown> {
  return typeof thing === 'object' && thing !== null && !Array.isArray(thing)
}
