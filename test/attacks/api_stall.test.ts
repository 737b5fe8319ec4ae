import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { catalogClient, catalogQuery } from '../admin.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/*
 * One API key uses as much as it can: streams, waiting requests, large bodies, CPU time. Another key is served
 * meanwhile.
 */

const STREAMS_PER_KEY = 100
const REQUESTS_PER_KEY = 100
const PATIENCE = () => AbortSignal.timeout(20_000)

async function makeKey(neap: Neap, scope: string): Promise<string> {
  const { body } = await send(neap, 'POST', '/api_keys', { body: { key_name: scope, scope } })
  assert.ok(body.key, body.message)
  return body.key
}

/** Sends a GET that can be aborted; resolves before the body has been read. */
const get = (neap: Neap, path: string, key: string, signal: AbortSignal, headers: Record<string, string> = {}) =>
  fetch(`${neap.ready.api_url}${path}`, { headers: { ...headers, authorization: `Bearer ${key}` }, signal })

/** The numbers of a stream's events, in order of arrival; the test stores them in `failures_count`. */
async function* numbersIn(response: Response): AsyncGenerator<number> {
  let text = ''
  for await (const chunk of (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
    const messages = `${text}${chunk}`.split('\n\n')
    text = messages.pop() ?? ''
    for (const message of messages) {
      const data = /^data: (.*)$/m.exec(message)?.[1]
      if (data !== undefined)
        yield (JSON.parse(data) as { operation: { failures_count: number } }).operation.failures_count
    }
  }
}

describe('with the default settings', () => {
  let neap: Neap
  let place: Place
  let stream: string

  before(async () => {
    neap = await startNeap({ env: { NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_RATE_LIMIT_PER_MINUTE: '0' } })
    place = await firstPlace(neap)
    stream = `/projects/${place.project_id}/operations/stream`
  })

  after(() => neap?.stop())

  /** Inserts events numbered from `first` on, as a change of an operation does. */
  const insertEvents = (first: number, many: number) =>
    catalogQuery(
      neap,
      `insert into operation_event (project_id, operation_id, status, failures_count, error, updated_at)
       select project_id, id, 'running', number, repeat('x', 200), now()
         from generate_series($2::int, $2::int + $3::int - 1) number,
              (select project_id, id from operation where project_id = $1 order by seq limit 1) o
        order by number`,
      [place.project_id, first, many],
    )
  const announce = () => catalogQuery(neap, `select pg_notify('operation_event', $1)`, [place.project_id])

  test('events are read once for all streams of a project, and other requests are served meanwhile', async () => {
    const key = await makeKey(neap, 'read')
    const stop = new AbortController()
    const streams = await Promise.all(Array.from({ length: 90 }, () => get(neap, stream, key, stop.signal)))
    assert.deepEqual(new Set(streams.map(({ status }) => status)), new Set([200]))
    const holder = await catalogClient(neap)
    try {
      // From here on each reader of events waits, and occupies a catalog connection.
      await holder.query('begin; lock table operation_event in access exclusive mode')
      await announce()
      const readers = () =>
        catalogQuery(
          neap,
          `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%operation_event e%'`,
        )
      await until('a reading of events', async () => (await readers()).length > 0)
      const other = await get(
        neap,
        `/projects/${place.project_id}/branches`,
        neap.ready.api_key ?? '',
        PATIENCE(),
      ).catch(() => undefined)
      const waiting = (await readers()).length
      assert.deepEqual([waiting, other?.status], [1, 200], 'readings that wait, and the answer to another key')
    } finally {
      await holder.end()
      stop.abort()
    }
  })

  test('streams are limited per key, and a stream that ends frees its slot', async () => {
    const key = await makeKey(neap, 'read')
    const stops = Array.from({ length: STREAMS_PER_KEY + 30 }, () => new AbortController())
    try {
      const streams = await Promise.all(stops.map(({ signal }) => get(neap, stream, key, signal)))
      const open = streams.filter(({ status }) => status === 200)
      assert.equal(open.length, STREAMS_PER_KEY)
      for (const each of streams.filter(({ status }) => status !== 200)) {
        assert.equal(each.status, 429)
        assert.match(each.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
        assert.match(((await each.json()) as { message: string }).message, /100 streams/)
      }
      const ended = streams.findIndex(({ status }) => status === 200)
      stops[ended]?.abort()
      const again = new AbortController()
      stops.push(again)
      await until('room for another stream', async () => (await get(neap, stream, key, again.signal)).status === 200)
      assert.equal((await send(neap, 'GET', '/projects', { key })).status, 200, 'its other requests are answered')
    } finally {
      for (const stop of stops) stop.abort()
    }
  })

  test('a stream delivers each event once and in order, however slowly it is read', { timeout: 120_000 }, async () => {
    const MANY = 12_000
    const stop = new AbortController()
    const key = await makeKey(neap, 'read')
    const open = (headers = {}) => get(neap, stream, key, stop.signal, headers)
    const [quick, slow] = [await open(), await open()]
    const found: number[] = []
    const reading = (async () => {
      for await (const number of numbersIn(quick)) if (found.push(number) === MANY) return
    })()
    // More than socket buffers hold.
    for (let first = 1; first <= MANY; first += 200) {
      await insertEvents(first, 200)
      await announce()
    }
    await reading
    const expected = Array.from({ length: MANY }, (_, index) => index + 1)
    assert.deepEqual(found, expected)
    const late: number[] = []
    for await (const number of numbersIn(slow)) if (late.push(number) === MANY) break
    assert.deepEqual(late, expected)
    stop.abort()
  })

  test('a large body is refused unread, whatever its content', async () => {
    const key = await makeKey(neap, 'write')
    const unknown = Object.fromEntries(Array.from({ length: 80_000 }, (_, index) => [`k${index}`, 0]))
    for (const path of [`/projects/${place.project_id}/branches`, `/projects/${place.project_id}/endpoints`]) {
      const answer = await send(neap, 'POST', path, { key, body: unknown })
      refused(answer, 413, 'BODY_TOO_LARGE', /over the 16 KiB/)
    }
    refused(
      await send(neap, 'PATCH', `/projects/${place.project_id}`, { key, body: unknown }),
      413,
      'BODY_TOO_LARGE',
      /32 KiB/,
    )
    const list = { project: { settings: { allowed_ips: { ips: Array.from({ length: 6_000 }, () => '1.1.1.1') } } } }
    const text = JSON.stringify(list).replaceAll('"1.1.1.1"', '1')
    refused(
      await send(neap, 'PATCH', `/projects/${place.project_id}`, { key, body: text }),
      400,
      'INVALID_REQUEST',
      /over 2000 values/,
    )
    const deep = { key, body: `{"branch":${'['.repeat(2_000)}${']'.repeat(2_000)}}` }
    refused(
      await send(neap, 'POST', `/projects/${place.project_id}/branches`, deep),
      400,
      'INVALID_REQUEST',
      /64 levels/,
    )
  })

  test('concurrent requests are limited per key, and other keys are served meanwhile', async () => {
    const [key, other] = [await makeKey(neap, 'read'), await makeKey(neap, 'read')]
    const [operation] = await catalogQuery<{ id: string }>(
      neap,
      `with p as (update project set last_seq = last_seq + 1, last_operation_at = clock_timestamp()
                   where id = $1 returning *)
       insert into operation
         (id, account_id, project_id, seq, action, excludes, shares, step, deadline_seconds, created_at)
       select gen_random_uuid(), account_id, id, last_seq, 'wait', '{}', '{}', 'begun', 60, last_operation_at
         from p returning id`,
      [place.project_id],
    )
    const path = `/projects/${place.project_id}/operations/${operation?.id}`
    const stop = new AbortController()
    const statuses: number[] = []
    const asked = Array.from({ length: REQUESTS_PER_KEY + 30 }, async () => {
      const answer = await get(neap, path, key, stop.signal, { prefer: 'wait=300' }).catch(() => undefined)
      if (answer) statuses.push(answer.status)
    })
    try {
      await until('the refusal of what is too many', () => statuses.length >= 30)
      assert.deepEqual([statuses.length, new Set(statuses)], [30, new Set([429])])
      assert.equal((await get(neap, '/projects', other, PATIENCE())).status, 200)
    } finally {
      stop.abort()
      await Promise.all(asked)
      await catalogQuery(neap, `update operation set status = 'failed', finished_at = now() where id = $1`, [
        operation?.id,
      ])
    }
    await until('room for another request', async () => (await get(neap, '/projects', key, PATIENCE())).status === 200)
  })
})

describe('with two percent of a core per key', () => {
  let neap: Neap

  before(async () => {
    neap = await startNeap({
      args: ['--no-project'],
      env: { NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_CPU_PER_KEY: '2' },
    })
  })

  after(() => neap?.stop())

  test('a key over its CPU time is refused with a retry time, and other keys are served', async () => {
    const [key, other] = [await makeKey(neap, 'write'), await makeKey(neap, 'read')]
    const body = JSON.stringify(Object.fromEntries(Array.from({ length: 1_500 }, (_, index) => [`k${index}`, 0])))
    let answer = await send(neap, 'PATCH', '/projects/none', { key, body })
    for (let asked = 0; answer.status !== 429 && asked < 20_000; asked += 20) {
      const asks = Array.from({ length: 20 }, () => send(neap, 'PATCH', '/projects/none', { key, body }))
      const answers = await Promise.all(asks)
      answer = answers.find(({ status }) => status === 429) ?? answer
    }
    refused(answer, 429, 'RATE_LIMITED', /CPU time/)
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    assert.equal((await send(neap, 'GET', '/projects', { key: other })).status, 200)
  })
})
