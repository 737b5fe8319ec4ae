import assert from 'node:assert/strict'
import { readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { newApiKey } from '../../src/secrets/generated.ts'
import { connect, query } from '../clients.ts'
import { type Answer, send } from '../http.ts'
import { envOf, leaveNothing, type Neap, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import { branchOff, firstPlace, type Place, settled, suspend } from '../project.ts'
import { startCatalogServer, withoutServer } from './catalog_server.ts'

/*
 * The catalog is unavailable for 4 seconds, or for NEAP_TEST_AWAY_SECONDS. Databases keep serving; other work waits and
 * resumes.
 */

const AWAY_MS = Number(process.env['NEAP_TEST_AWAY_SECONDS'] ?? 4) * 1000

interface Absence {
  readonly begin: () => Promise<void>
  readonly end: () => Promise<void>
}

/** Signals a postmaster and its children. */
function signalServer(postmaster: number, signal: NodeJS.Signals): void {
  const children = readdirSync('/proc').filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1] === String(postmaster)
      )
    } catch {
      return false
    }
  })
  for (const pid of [postmaster, ...children.map(Number)]) process.kill(pid, signal)
}

const frozen = (pid: () => Promise<number>): Absence => ({
  begin: async () => signalServer(await pid(), 'SIGSTOP'),
  end: async () => signalServer(await pid(), 'SIGCONT'),
})

/** Requests a new role: a change with an operation. */
function ask(neap: Neap, place: Place, name: string): Promise<Answer> {
  const path = `/projects/${place.project_id}/branches/${place.branch_id}/roles`
  return send(neap, 'POST', path, { body: { role: { name } }, headers: { 'idempotency-key': name } })
}

/**
 * Follows the operations of a project and reconnects with the last event id; `received` collects all events, by id and
 * status.
 */
function follow(neap: Neap, { project_id }: Place) {
  const { api_url, api_key } = neap.ready
  const received: string[] = []
  const over = new AbortController()
  let last = '0'

  async function read(): Promise<void> {
    const headers = { authorization: `Bearer ${api_key}`, 'last-event-id': last }
    const url = `${api_url}/projects/${project_id}/operations/stream`
    const response = await fetch(url, { headers, signal: over.signal })
    if (!response.ok || !response.body) return
    let text = ''
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const events = `${text}${chunk}`.split('\n\n')
      text = events.pop() ?? ''
      for (const event of events) {
        last = /^id: (.*)$/m.exec(event)?.[1] ?? last
        const { operation } = JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? '{}') as { operation?: Told }
        if (operation) received.push(`${operation.id} ${operation.status}`)
      }
    }
  }

  const reading = (async () => {
    while (!over.signal.aborted) {
      // Reconnect after a lost or refused stream.
      await read().catch(() => {})
      await sleep(50)
    }
  })()
  return {
    received,
    async stop() {
      over.abort()
      await reading
    },
  }
}

interface Told {
  readonly id: string
  readonly status: string
}

let count = 0

/** Asserts the behaviour during and after an outage of the catalog. */
async function expectEndurance(neap: Neap, place: Place, sleeping: Place, absence: Absence): Promise<void> {
  await query(neap, place.uri, 'select 1')
  await settled(neap, place, 'active')
  await suspend(neap, sleeping)
  const lost: Error[] = []
  const session = await connect(neap, place.uri, { lost: (error) => lost.push(error) })
  await session.query('begin; create temporary table seen (number int) on commit drop')
  const stream = follow(neap, place)

  await absence.begin()
  const name = `role_${++count}`
  let inserted = 0
  let refused = 0
  let over = false
  void sleep(AWAY_MS).then(() => (over = true))
  const early: string[] = []
  const late = [place, sleeping].map((each) =>
    query(neap, each.uri, 'select 1 as one').finally(() => {
      if (!over) early.push(each.endpoint_id)
    }),
  )
  do {
    const answer = await ask(neap, place, name)
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1'], answer.body.message)
    refused++
    await session.query('insert into seen values ($1)', [inserted++])
    await sleep(50)
  } while (!over)
  assert.deepEqual(early, [], 'nobody was let in or turned away meanwhile')
  await absence.end()

  for (const rows of await Promise.all(late)) assert.deepEqual(rows, [{ one: 1 }])
  const made = await until('an API that answers', async () => {
    const answer = await ask(neap, place, name)
    if (answer.status !== 503) return answer
    return undefined
  })
  assert.equal(made.status, 201, made.body.message)
  const [operation] = made.body['operations'] as { id: string; project_id: string }[]
  await neap.ended([operation as NonNullable<typeof operation>])
  const { rows } = await session.query<{ count: number }>('select count(*)::int from seen')
  assert.deepEqual(rows, [{ count: inserted }])
  await session.query('commit')
  await session.end()
  assert.deepEqual(lost, [])
  assert.ok(refused > 0)
  await until('the stream has the event', () => stream.received.includes(`${operation?.id} finished`))
  await stream.stop()
  assert.deepEqual(stream.received, [...new Set(stream.received)], 'no event came twice')
  await settled(neap, sleeping, 'active')
}

describe('the embedded catalog', () => {
  const dataDir = newDataDir()
  let neap: Neap
  let place: Place
  let sleeping: Place
  const catalogPid = async (): Promise<number> =>
    until('a catalog', () => postmastersOf(dataDir).find(({ directory }) => directory.endsWith('/catalog/pgdata'))?.pid)

  before(async () => {
    neap = await startNeap({ dataDir, env: { NEAP_WAKE_TIMEOUT: '180' } })
    place = await firstPlace(neap)
    sleeping = await branchOff(neap, place)
  })
  after(async () => {
    await neap?.end()
    await leaveNothing(dataDir)
  })

  test('sessions and the API endure a catalog that is killed and cannot start', async () => {
    const [here, away] = ['global', 'global.away'].map((name) => join(dataDir, 'catalog', 'pgdata', name)) as [
      string,
      string,
    ]
    await expectEndurance(neap, place, sleeping, {
      begin: async () => {
        const pid = await catalogPid()
        renameSync(here, away)
        await kill(pid)
      },
      end: async () => renameSync(away, here),
    })
    assert.match(neap.stderr(), /the catalog ended; starting it again\n/)
    assert.match(
      neap.stderr(),
      /the catalog could not be started \(.+\); trying again in 0.25 s\n.*trying again in 0.5 s/s,
    )
  })

  test('sessions and the API endure a frozen catalog', () => expectEndurance(neap, place, sleeping, frozen(catalogPid)))

  test('a part that starts meanwhile waits for the catalog, and unknown keys do not count as guesses', async () => {
    const { begin, end } = frozen(catalogPid)
    await begin()
    // These keys cannot be looked up, so they must not count as guesses, which are limited.
    const requests = Array.from({ length: 250 }, () => send(neap, 'GET', '/projects', { key: newApiKey() }))
    const statuses = (await Promise.all(requests)).map(({ status }) => status)
    const worker = spawnNeap(['worker'], envOf(dataDir))
    let said = ''
    worker.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text))
    const exited = new Promise((resolve) => worker.once('exit', resolve))
    await until('the worker waits', () => said.includes('waiting for it'))
    await end()
    assert.deepEqual(new Set(statuses), new Set([503]))
    await until('the worker is ready', () => said.includes('"ready"'))
    worker.kill('SIGTERM')
    assert.equal(await exited, 0)
  })
})

test(
  "sessions and the API endure an operator's catalog that is stopped or frozen",
  { skip: withoutServer },
  async (t) => {
    const server = await startCatalogServer()
    const dataDir = newDataDir()
    const starting = startNeap({ dataDir, env: { NEAP_CATALOG_URL: server.url, NEAP_WAKE_TIMEOUT: '180' } })
    t.after(async () => {
      try {
        await (await starting).end()
      } finally {
        await server.close()
      }
      await leaveNothing(dataDir)
    })
    const neap = await starting
    const place = await firstPlace(neap)
    const sleeping = await branchOff(neap, place)
    assert.deepEqual(
      postmastersOf(dataDir).filter(({ directory }) => directory.endsWith('/catalog/pgdata')),
      [],
    )
    await expectEndurance(neap, place, sleeping, { begin: server.stop, end: server.start })
    await expectEndurance(neap, place, sleeping, frozen(server.pid))
  },
)
