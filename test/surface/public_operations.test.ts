import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, before, test } from 'node:test'
import { NOT_SUPPORTED } from '../../src/http/not_supported.ts'
import { routes } from '../../src/http/routes/index.ts'
import { plainKey, shippedRoutes } from '../clients/shipped_contract.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { keyOf, owner } from './account.ts'

/*
 * Every operation of the public API's document is either served or refused with a reason; a method that a path does not
 * take is answered 405.
 */

let neap: Neap

before(async () => {
  neap = await startNeap({ env: { NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_RATE_LIMIT_PER_SECOND: '0' } })
})
after(() => neap?.stop())

const split = (key: string) => key.split(' ') as [string, string]
const served = new Set<string>(routes.map(({ key }) => plainKey(...split(key))))
const refusals = new Map(
  NOT_SUPPORTED.flatMap(({ product, operations }) => operations.map((key) => [plainKey(...split(key)), product])),
)
/** A path with ids that do not exist. */
const asked = (key: string): [string, string] => split(key.replaceAll('{}', 'no-such-00000000'))

test('every operation of the public document is served or listed as not supported', () => {
  assert.ok(shippedRoutes.size > 150)
  assert.deepEqual(
    [...shippedRoutes].filter((key) => served.has(key) === refusals.has(key)),
    [],
  )
})

test('no operation is both served and listed as not supported, or listed twice', () => {
  const listed = NOT_SUPPORTED.flatMap(({ operations }) => operations)
  assert.deepEqual(
    listed.filter((key) => served.has(plainKey(...split(key)))),
    [],
  )
  assert.equal(new Set(listed).size, listed.length)
})

test('an unsupported operation is refused with 404 NOT_SUPPORTED and the missing feature', async () => {
  for (const [key, product] of refusals) {
    const [method, path] = asked(key)
    refused(
      await send(neap, method, path),
      404,
      'NOT_SUPPORTED',
      new RegExp(`^Neap has no ${escaped(product)}: not available here\\. [A-Z]`),
    )
  }
})

test('an unsupported operation is refused after authentication and scope, before the body is read', async () => {
  const { account_id } = await owner(neap)
  const reader = await keyOf(neap, account_id, 'read')
  const narrow = await keyOf(neap, account_id, 'admin', neap.ready.project_id as string)
  for (const key of refusals.keys()) {
    const [method, path] = asked(key)
    refused(await send(neap, method, path, { key: null }), 401, 'UNAUTHENTICATED', /API key/)
    const [status, code] = method === 'GET' ? ([404, 'NOT_SUPPORTED'] as const) : ([403, 'FORBIDDEN'] as const)
    refused(await send(neap, method, path, { key: reader }), status, code, /./)
    const elsewhere = await send(neap, method, path, { key: narrow })
    assert.ok(['NOT_FOUND', 'FORBIDDEN'].includes(elsewhere.body.code ?? ''), `${key}: ${elsewhere.body.code}`)
  }
  const deployment = `/projects/${neap.ready.project_id}/branches/x/functions/f/deployments`
  refused(
    await send(neap, 'POST', deployment, { body: 'no form', type: 'multipart/form-data; boundary=x' }),
    404,
    'NOT_SUPPORTED',
    /functions/,
  )
})

test('a served operation answers as itself, not as an unknown path', async () => {
  for (const key of shippedRoutes) {
    if (refusals.has(key)) continue
    const [method, path] = asked(key)
    const { body } = await send(neap, method, path, method === 'GET' ? {} : { body: {} })
    assert.ok(!['NOT_SUPPORTED', 'METHOD_NOT_ALLOWED'].includes(body.code ?? ''), `${key}: ${body.message}`)
    assert.doesNotMatch(body.message ?? '', /^There is no/, key)
  }
})

test('a method that a path does not take is 405 with Allow, without a key too', async () => {
  for (const [method, path, allowed] of [
    ['PUT', '/projects', 'GET, HEAD, POST, OPTIONS'],
    ['DELETE', '/projects', 'GET, HEAD, POST, OPTIONS'],
    ['PUT', '/projects/p?limit=1', 'DELETE, GET, HEAD, PATCH, OPTIONS'],
    ['POST', '/projects/p', 'DELETE, GET, HEAD, PATCH, OPTIONS'],
    ['PATCH', '/projects/p/jwks', 'GET, HEAD, POST, OPTIONS'],
    ['GET', '/projects/p/branches/b/set_as_primary', 'POST, OPTIONS'],
    ['POST', '/openapi.json', 'GET, HEAD, OPTIONS'],
  ] as const) {
    for (const key of [undefined, null]) {
      const body = method === 'GET' ? {} : { body: 'x', type: 'text/plain' }
      const answer = await send(neap, method, path, { ...(key === null && { key }), ...body })
      refused(answer, 405, 'METHOD_NOT_ALLOWED', new RegExp(`does not take ${method}, but `))
      assert.equal(answer.headers.get('allow'), allowed)
    }
  }
  refused(await send(neap, 'PUT', '/nothing'), 404, 'NOT_FOUND', /There is no PUT/)
})

test('every path refuses every undeclared method', async () => {
  const all = [...served, ...refusals.keys()]
  for (const path of new Set(all.map((key) => asked(key)[1]))) {
    const allowed = new Set<string | undefined>()
    for (const key of all) if (fits(path, key)) allowed.add(split(key)[0])
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      const { status, body } = await send(neap, method, path, { key: null })
      if (allowed.has(method)) assert.equal(status, 401, `${method} ${path}: ${body.message}`)
      else assert.equal(status, 405, `${method} ${path}: ${body.message}`)
    }
  }
})

test('OPTIONS lists the methods, and HEAD answers as GET without a body', async () => {
  const options = await fetch(`${neap.ready.api_url}/projects`, { method: 'OPTIONS' })
  assert.deepEqual([options.status, options.headers.get('allow')], [204, 'GET, HEAD, POST, OPTIONS'])
  assert.ok(options.headers.get('x-request-id'))
  const project = `/projects/${neap.ready.project_id}`
  for (const path of ['/projects', project, '/projects/none', `${project}/operations/stream`, `${project}/advisors`]) {
    const head = await headOf(path)
    const get = await fetch(`${neap.ready.api_url}${path}`, {
      headers: { authorization: `Bearer ${neap.ready.api_key}` },
    })
    await get.body?.cancel()
    assert.deepEqual([head.status, head.bytes], [get.status, 0], path)
    assert.equal(head.type, get.headers.get('content-type'), path)
  }
})

/** Sends a HEAD request and counts the bytes of its answer. */
function headOf(path: string): Promise<{ status: number | undefined; type: string | undefined; bytes: number }> {
  const url = new URL(`${neap.ready.api_url}${path}`)
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      { method: 'HEAD', headers: { authorization: `Bearer ${neap.ready.api_key}` } },
      (response) => {
        let bytes = 0
        response.on('data', (part: Buffer) => (bytes += part.length))
        response.on('end', () =>
          resolve({ status: response.statusCode, type: response.headers['content-type'], bytes }),
        )
        response.on('error', reject)
      },
    )
    sent.on('error', reject)
    sent.end()
  })
}

const escaped = (text: string) => text.replaceAll(/[.*+?^$()|[\]\\]/g, String.raw`\$&`)
const fits = (path: string, key: string) =>
  new RegExp(`^${split(key)[1].split('{}').map(escaped).join('[^/]+')}$`).test(path)
