import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { routes } from '../../src/http/routes/index.ts'
import { type Neap, startNeap } from '../neap.ts'
import { owner } from './account.ts'
import { broken, type Schema, valid } from './arbitrary.ts'
import { ask, placeholders } from './ask.ts'
import { encode } from './garbled.ts'
import { NOWHERE, realScene, type Scene } from './scene.ts'

/*
 * The OpenAPI document against the actual validation, in both directions. A failure prints its seed; repeat it with
 * NEAP_SURFACE_SEED, and run longer with NEAP_SURFACE_RUNS.
 */

const SEED = Number(process.env['NEAP_SURFACE_SEED'] ?? Date.now() % 2 ** 31)
const RUNS = Number(process.env['NEAP_SURFACE_RUNS'] ?? 40)

interface Operation {
  readonly parameters?: readonly {
    readonly in: string
    readonly name: string
    readonly required?: boolean
    readonly schema: Schema
  }[]
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Schema } } }
}

const document = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8')) as {
  readonly paths: Record<string, Record<string, Operation>>
}
const ajv = new Ajv({ strict: false, validateFormats: true })
addFormats.default(ajv)

/** Texts that only Neap can produce, which no schema describes. */
const OPAQUE = ['cursor']

let neap: Neap
let key: string
let scene: Scene

before(async () => {
  console.log(`# NEAP_SURFACE_SEED=${SEED} NEAP_SURFACE_RUNS=${RUNS}`)
  // The scene's projects reach the limit: requests for more are refused after complete validation.
  neap = await startNeap({
    env: { NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_PROJECTS_LIMIT: '2' },
  })
  const actor = await owner(neap)
  key = actor.key
  scene = await realScene(neap, actor)
})
after(() => neap?.stop())

/** The query and body that the document allows for a route. */
function sent(route: string): { readonly query: Schema; readonly body: Schema | undefined } {
  const [method = '', path = ''] = route.split(' ')
  const operation = document.paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
  assert.ok(operation, `the document lacks ${route}`)
  const query = (operation.parameters ?? []).filter((each) => each.in === 'query' && !OPAQUE.includes(each.name))
  return {
    query: {
      type: 'object',
      properties: Object.fromEntries(query.map(({ name, schema }) => [name, schema])),
      required: query.filter(({ required }) => required).map(({ name }) => name),
    },
    body: operation.requestBody?.content['application/json'].schema,
  }
}

function address(route: string, values: Record<string, string | number>, query: object) {
  const [method = '', template = ''] = route.split(' ')
  const path = template.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(values[name])))
  const search = Object.entries(query).map(([name, each]) => `${name}=${encode(String(each))}`)
  return { method, path: search.length > 0 ? `${path}?${search.join('&')}` : path }
}

/** Requests about a project, key or webhook that does not exist are fully validated but change no data. */
const nowhere = { ...placeholders(NOWHERE) }

for (const { key: route } of routes) {
  const { query, body } = sent(route)
  const fields = Object.keys(query.properties ?? {}).length
  if (fields === 0 && !body) continue

  test(`${route}: a request that the document allows is not refused as malformed`, async () => {
    const requests = fc.tuple(valid(query, {}), body ? valid(body, {}) : fc.constant(undefined))
    await fc.assert(
      fc.asyncProperty(requests, async ([asked, given]) => {
        const answer = await ask(neap, key, { ...address(route, nowhere, asked as object), body: given })
        assert.notEqual(answer.status, 400, answer.text)
        assert.ok(answer.status < 500, answer.text)
      }),
      { seed: SEED, numRuns: RUNS, verbose: 1 },
    )
  })

  if (!body) continue
  const allows = ajv.compile(body)
  test(`${route}: a body that the document does not allow is refused`, async () => {
    const values = valid(body, {}).chain(broken)
    // Excluded: an empty text counts as an absent field, and no body as an empty one.
    const wrong = values.filter(
      (value) => !allows(value) && value !== null && !/""|"[^"]*\\u0000/.test(JSON.stringify(value)),
    )
    await fc.assert(
      fc.asyncProperty(wrong, async (given) => {
        const real = { ...placeholders(scene), endpoint_id: scene.endpoint_id }
        const answer = await ask(neap, key, { ...address(route, real, {}), body: given })
        assert.ok(answer.status >= 400 && answer.status < 500, answer.text)
      }),
      { seed: SEED, numRuns: RUNS, verbose: 1 },
    )
  })
}

test('the document states the checked limits', () => {
  const { body: endpoint } = sent('POST /projects/:project_id/endpoints')
  const { body: branch } = sent('PATCH /projects/:project_id/branches/:branch_id')
  const { body: webhook } = sent('POST /webhooks')
  const size = endpoint?.properties?.['endpoint']?.properties?.['autoscaling_limit_min_cu']
  assert.deepEqual(size, { type: 'number', minimum: 0.25, maximum: 7, multipleOf: 0.25 })
  assert.equal(branch?.properties?.['branch']?.properties?.['name']?.minLength, 1)
  const free = branch?.properties?.['branch']?.properties?.['name']?.pattern ?? ''
  assert.ok(new RegExp(free).test('any\n"text"') && !new RegExp(free).test('a\0b'))
  const url = webhook?.properties?.['webhook']?.properties?.['url']?.pattern ?? ''
  assert.ok(new RegExp(url).test('https://x.example/') && !new RegExp(url).test('ftp://x.example/'))
})
