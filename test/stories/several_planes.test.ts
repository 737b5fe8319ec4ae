import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, query } from '../clients.ts'
import { send } from '../http.ts'
import { envOf, ifAway, leaveNothing, type Neap, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import { branchOff, endpointOf, firstPlace, operationsOf, type Place, settled } from '../project.ts'

/*
 * A second api, worker and proxy beside those of `neap up`, on one catalog. While clients write through both, parts are
 * killed, and frozen for longer than the catalog keeps an unresponsive session.
 */

const FROZEN_MS = 18_000
const dataDir = newDataDir()
const settings = { NEAP_SUSPEND_TIMEOUT: '1', NEAP_MIN_SUSPEND_TIMEOUT: '1' }
let neap: Neap
let places: Place[]
const started: ChildProcess[] = []

type Name = 'api' | 'worker' | 'proxy'

interface Part {
  readonly process: ChildProcess
  readonly pid: number
  readonly port: number
}

/** Starts a part separately, as a user does beside a running Neap. */
async function startPart(name: Name): Promise<Part> {
  const port = { api: ['--api-port', '0'], worker: [], proxy: ['--proxy-port', '0'] }[name]
  const env = { ...settings, NEAP_WORKER_METRICS_PORT: '0', NEAP_PROXY_METRICS_PORT: '0' }
  const child = spawnNeap([name, ...port], envOf(dataDir, env))
  started.push(child)
  const lines = createInterface({ input: child.stderr as NonNullable<typeof child.stderr> })
  return new Promise((resolve, reject) => {
    const said: string[] = []
    lines.on('line', (line) => {
      said.push(line)
      const { msg, port: listens = 0 } = JSON.parse(line.startsWith('{') ? line : '{}') as {
        msg?: string
        port?: number
      }
      if (msg === 'ready') resolve({ process: child, pid: child.pid as number, port: listens })
    })
    child.once('exit', () => reject(new Error(`neap ${name} ended: ${said.join('\n')}`)))
  })
}

before(async () => {
  neap = await startNeap({ dataDir, env: settings })
  const first = await firstPlace(neap)
  places = [first, await branchOff(neap, first), await branchOff(neap, first)]
  for (const { uri } of places) await query(neap, uri, 'create table seen (number int primary key)')
})

after(async () => {
  await kill(
    ...started.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null).map(({ pid }) => pid),
  )
  await neap?.end()
  await leaveNothing(dataDir)
})

const signal = (parts: readonly Part[], name: NodeJS.Signals) =>
  parts.forEach(({ process: { pid } }) => process.kill(pid as number, name))

/** Returns true when an api answers at the administration socket. */
const answers = () => neap.call('GET /projects', {}).then(() => true, ifAway)

/** Sends a request to each api in turn until one gives an answer other than 503. */
async function ask(urls: () => string[], method: string, path: string, body: unknown, key: string) {
  for (let turn = 0; ; turn++) {
    const all = urls()
    const url = all[turn % all.length] as string
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${neap.ready.api_key}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(3_000),
    }).catch(() => undefined)
    if (answer && answer.status !== 503) {
      assert.ok(answer.status < 500, `${answer.status}: ${await answer.clone().text()}`)
      return answer
    }
    await sleep(20)
  }
}

/** Creates roles one after the other, each through the first api that answers. */
function writeRoles(urls: () => string[], { project_id, branch_id }: Place, stopped: () => boolean) {
  return (async () => {
    const names: string[] = []
    while (!stopped()) {
      const name = `${branch_id.replaceAll('-', '_')}_${names.length}`
      const path = `/projects/${project_id}/branches/${branch_id}/roles`
      const answer = await ask(urls, 'POST', path, { role: { name } }, name)
      assert.equal(answer.status, 201, await answer.clone().text())
      names.push(name)
      await sleep(300)
    }
    return names
  })()
}

/**
 * Inserts consecutive numbers, each on a new connection, alternating between the proxies; every fifth pause is long
 * enough for the endpoint to be suspended.
 */
function writeNumbers(ports: () => number[], { uri }: Place, stopped: () => boolean) {
  return (async () => {
    let number = 0
    for (let turn = 0; !stopped(); turn++) {
      const all = ports()
      const proxied = uri.replace(/:\d+\//, `:${all[turn % all.length]}/`)
      const client = await connect(neap, proxied, { connectionTimeoutMillis: 20_000, query_timeout: 5_000 }).catch(
        () => undefined,
      )
      const wrote = await client
        ?.query('insert into seen values ($1) on conflict do nothing', [number])
        .then(() => true)
        .catch(() => false)
      void client?.end().catch(() => {})
      if (wrote) number++
      await sleep(number % 5 === 0 ? 2_000 : 100)
    }
    return number
  })()
}

test('killed and frozen parts leave no operation undone, repeated or stuck', async () => {
  let second = { api: await startPart('api'), worker: await startPart('worker'), proxy: await startPart('proxy') }
  const urls = () => [neap.ready.api_url, `http://127.0.0.1:${second.api.port}/api/v2`]
  const ports = () => [neap.ready.proxy_port, second.proxy.port]
  let over = false
  const stopped = () => over
  const roles = places.map((place) => writeRoles(urls, place, stopped))
  const numbers = places.map((place) => writeNumbers(ports, place, stopped))
  const load = Promise.all([...roles, ...numbers])
  load.catch(() => (over = true))

  try {
    await sleep(2_000)
    for (const name of ['api', 'worker', 'proxy'] as const) {
      await kill(...neap.parts(name))
      await kill(second[name].pid)
      second = { ...second, [name]: await startPart(name) }
    }

    const quiet = await branchOff(neap, places[0] as Place)
    const frozen = Object.values(second)
    signal(frozen, 'SIGSTOP')
    const thawing = sleep(FROZEN_MS)
    await until('the administration socket is taken over', () => Promise.race([answers(), sleep(1_000, false)]))
    await query(neap, quiet.uri, 'select 1')
    // It is suspended although the frozen proxy cannot confirm the pause: that proxy is considered dead after a while.
    await settled(neap, quiet, 'idle')
    await query(neap, quiet.uri, 'select 1')
    await thawing
    signal(frozen, 'SIGCONT')
    await sleep(2_000)
  } finally {
    over = true
  }
  await load

  for (const [index, place] of places.entries()) {
    const written = (await numbers[index]) as number
    assert.ok(written > 0)
    const [row] = await query<{ count: number }>(
      neap,
      place.uri,
      `select count(*)::int from seen where number < ${written}`,
    )
    assert.equal(row?.count, written)
    const names = (await roles[index]) as string[]
    const params = { project_id: place.project_id, branch_id: place.branch_id }
    const listed = await neap.call('GET /projects/:project_id/branches/:branch_id/roles', { params })
    const made = listed.roles
      .map(({ name }) => name)
      .filter((name) => name.startsWith(place.branch_id.replaceAll('-', '_')))
    assert.deepEqual(made.sort(), names.sort())
  }
  await until('every operation has ended', async () =>
    (await operationsOf(neap, places[0] as Place)).every(({ status }) => status === 'finished' || status === 'failed'),
  )
  const failed = (await operationsOf(neap, places[0] as Place)).filter(({ status }) => status === 'failed')
  assert.deepEqual(failed, [])
  for (const place of places) assert.equal((await endpointOf(neap, place)).pending_state, undefined)
  const directories = postmastersOf(dataDir).map(({ directory }) => directory)
  assert.deepEqual(directories, [...new Set(directories)])
})

test('a revoked key stops working on both apis, even on one that was frozen meanwhile', async () => {
  const other = await startPart('api')
  const url = `http://127.0.0.1:${other.port}/api/v2`
  const make = async (name: string) => (await send(neap, 'POST', '/api_keys', { body: { key_name: name } })).body
  const status = async (key: string | undefined, at?: string) =>
    (await send(neap, 'GET', '/projects', { ...(key && { key }), ...(at && { url: at }) })).status
  const [one, two] = [await make('one'), await make('two')]
  for (const { key } of [one, two]) assert.deepEqual([await status(key), await status(key, url)], [200, 200])
  await send(neap, 'DELETE', `/api_keys/${String(one['id'])}`)
  assert.equal(await status(one.key), 401)
  await until('the other has heard of it', async () => (await status(one.key, url)) === 401)

  signal([other], 'SIGSTOP')
  await send(neap, 'DELETE', `/api_keys/${String(two['id'])}`)
  const late = status(two.key, url)
  // For longer than an api caches a key.
  await sleep(6_000)
  signal([other], 'SIGCONT')
  assert.equal(await late, 401)
  other.process.kill('SIGTERM')
  await once(other.process, 'exit')
})

test('one of the apis always serves the administration socket', async () => {
  for (const end of ['SIGTERM', 'SIGKILL'] as const) {
    const other = await startPart('api')
    assert.equal(await answers(), true)
    // The api of `neap up` may end as well: the other one owns the path by now.
    const supervised = neap.part('api')
    await kill(supervised)
    assert.equal(await answers(), true)
    await until('another api', () => neap.part('api'))
    other.process.kill(end)
    await once(other.process, 'exit')
    await until('the socket is taken over', answers)
  }
})
