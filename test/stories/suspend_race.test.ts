import assert from 'node:assert/strict'
import type pg from 'pg'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Catalog, openCatalog } from '../../src/catalog/catalog.ts'
import { embeddedCatalogUrl } from '../../src/catalog/embedded.ts'
import { computeAddress } from '../../src/catalog/compute.ts'
import { findEndpoint } from '../../src/catalog/endpoint.ts'
import { awaitOperations, type Operation, unfinishedOperations } from '../../src/catalog/operation.ts'
import { lockEndpointAndProject } from '../../src/catalog/project.ts'
import { sql } from '../../src/catalog/sql.ts'
import { readActivity } from '../../src/compute_admin/activity.ts'
import { withAdminSession } from '../../src/compute_admin/session.ts'
import { queueCheck } from '../../src/operations/check_availability.ts'
import { queueSuspend } from '../../src/operations/suspend_compute.ts'
import { loadOrCreateSecrets, type Secrets } from '../../src/secrets/secrets.ts'
import { connect, query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { branchOff, enableReplication, firstPlace, type Place } from '../project.ts'
import { randomFrom } from '../random.ts'

/*
 * The idle loop's suspend against all kinds of clients, repeatedly, at every phase of the handshake. The test queues
 * the suspends itself, as the loop does, because no timeout is short enough. NEAP_RACE_ROUNDS sets the number of
 * rounds, NEAP_RACE_SEED their choices.
 */

const ROUNDS = Number(process.env['NEAP_RACE_ROUNDS'] ?? 200)
const SEED = Number(process.env['NEAP_RACE_SEED'] ?? 20_261_121)
/** Concurrent endpoints, each with its own rounds. */
const ENDPOINTS = 5
/** The approximate duration of a suspend: clients come before, during and after it. */
const SPREAD_MS = 400
/** Activity more recent than this may abort a suspend. */
const CALM_MS = 300
const OPEN_SESSIONS = 3

let neap: Neap
const lanes: Lane[] = []
let catalog: Catalog
let secrets: Secrets

before(async () => {
  neap = await startNeap()
  const first = await firstPlace(neap)
  await enableReplication(neap, first)
  const { data_dir } = neap.ready
  secrets = await loadOrCreateSecrets(join(data_dir, 'secret.key'))
  catalog = openCatalog(embeddedCatalogUrl(join(data_dir, 'run'), secrets.catalogPasswords()[0]), 4, () => {})
  await query(neap, first.uri, 'create table written (number int primary key)')
  await query(neap, first.uri, 'create publication all_written for table written')
  for (let number = 0; number < ENDPOINTS; number++) {
    const place = number === 0 ? first : await branchOff(neap, first)
    const { project_id, endpoint_id } = place
    await neap.call('PATCH /projects/:project_id/endpoints/:endpoint_id', {
      params: { project_id, endpoint_id },
      body: { endpoint: { suspend_timeout_seconds: -1 } },
    })
    lanes.push({
      place,
      random: randomFrom(SEED + number).next,
      idle: [],
      attempted: new Set(),
      acknowledged: new Set(),
    })
  }
})
after(async () => {
  await catalog?.close()
  await neap?.stop()
})

/** Outcomes and how often each occurred. */
const counts: Record<string, number> = {}
const count = (what: string): number => (counts[what] = (counts[what] ?? 0) + 1)

/** One endpoint and its clients. */
interface Lane {
  readonly place: Place
  readonly random: () => number
  readonly idle: pg.Client[]
  readonly attempted: Set<number>
  readonly acknowledged: Set<number>
}

async function write({ attempted, acknowledged }: Lane, client: pg.Client): Promise<void> {
  const number = attempted.size + 1
  attempted.add(number)
  await client.query('insert into written values ($1)', [number])
  acknowledged.add(number)
  count('acknowledged')
}

/**
 * Asserts that a session without a transaction can fail only with the error of a suspend. Returns true when a suspend
 * ended it.
 */
async function endsIdleSession(client: pg.Client, work: Promise<unknown>, what: string): Promise<boolean> {
  try {
    await work
    return false
  } catch (error) {
    const { code, message } = error as pg.DatabaseError
    // The driver may have reported the error just before.
    assert.ok([code, reasons.get(client)].includes('57P01'), `${what}: ${code} ${message}`)
    count('idle session ended')
    return true
  }
}

/** The error codes of sessions that the test did not end itself. */
const reasons = new Map<pg.Client, string>()

async function open({ place }: Lane, config: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = await connect(neap, place.uri, {
    ...config,
    lost: (error) => {
      if (!reasons.has(client)) reasons.set(client, (error as pg.DatabaseError).code ?? error.message)
    },
  })
  return client
}

/** Kinds of clients; `over` resolves when the suspend of the round has ended. */
const CLIENTS: Record<string, (lane: Lane, over: Promise<void>) => Promise<void>> = {
  async 'new connection'(lane) {
    const client = await open(lane)
    await endsIdleSession(client, write(lane, client), 'a first query')
    await client.end().catch(() => {})
  },
  async 'idle connection'(lane) {
    const { idle, random } = lane
    for (const client of idle.splice(0)) {
      if (!reasons.has(client)) idle.push(client)
      else assert.equal(reasons.get(client), '57P01', 'an idle session was told why it ended')
    }
    while (idle.length < OPEN_SESSIONS) idle.push(await open(lane))
    const [client] = idle.splice(Math.floor(random() * idle.length), 1)
    assert.ok(client)
    if (!(await endsIdleSession(client, write(lane, client), 'a query of an idle session'))) idle.push(client)
  },
  async transaction(lane, over) {
    const client = await open(lane)
    if (await endsIdleSession(client, client.query('begin'), 'begin')) return
    await write(lane, client)
    await over
    await client.query('select 1')
    await client.query('commit')
    await client.end()
  },
  async query(lane) {
    const client = await open(lane)
    if (await endsIdleSession(client, client.query('begin'), 'begin')) return
    await client.query('select pg_sleep(0.6)')
    await client.query('commit')
    await client.end()
  },
  async replication(lane, over) {
    const client = await open(lane, { replication: 'true' } as pg.ClientConfig)
    let cut: unknown
    const slot = `race_${count('replication stream')}`
    // Without a slot Postgres may already have removed the requested WAL.
    await client.query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY PHYSICAL RESERVE_WAL`)
    const { rows } = await client.query<{ xlogpos: string }>('IDENTIFY_SYSTEM')
    const stream = client
      .query(`START_REPLICATION SLOT ${slot} ${rows[0]?.xlogpos}`)
      .catch((error: unknown) => (cut = error))
    await over
    assert.equal(cut, undefined, 'a stream was cut')
    await client.end()
    await stream
  },
  async 'logical replication'(lane, over) {
    const { pathname } = new URL(lane.place.uri)
    const client = await open(lane, { replication: 'database', database: pathname.slice(1) } as pg.ClientConfig)
    let cut: unknown
    const slot = `logical_${count('logical stream')}`
    await client.query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY LOGICAL pgoutput`)
    const stream = client
      .query(`START_REPLICATION SLOT ${slot} LOGICAL 0/0 (proto_version '1', publication_names 'all_written')`)
      .catch((error: unknown) => (cut = error))
    await over
    assert.equal(cut, undefined, 'a logical stream was cut')
    await client.end()
    await stream
  },
  async backup(lane) {
    const client = await open(lane, { replication: 'true' } as pg.ClientConfig)
    await client.query(`BASE_BACKUP (LABEL 'race', CHECKPOINT 'fast', MAX_RATE 65536, WAIT false)`)
    await client.end()
  },
}

const WEIGHTS: Record<string, number> = {
  'new connection': 8,
  'idle connection': 8,
  transaction: 4,
  query: 2,
  replication: 2,
  'logical replication': 2,
  backup: 0.4,
}

function pick(random: () => number): string {
  const total = Object.values(WEIGHTS).reduce((sum, weight) => sum + weight, 0)
  let left = random() * total
  return Object.entries(WEIGHTS).find(([, weight]) => (left -= weight) < 0)?.[0] ?? 'new connection'
}

/**
 * Queues a suspend as the idle loop does for an idle endpoint; for a suspended one, sometimes queues a check instead.
 * Returns undefined when another change is pending or no operation was queued.
 */
async function ask({ place, random }: Lane): Promise<Operation | undefined> {
  const { endpoint_id } = place
  const endpoint = await findEndpoint(catalog, endpoint_id)
  if (endpoint?.pending_state !== null) return undefined
  if (endpoint.current_state === 'active') {
    const address = computeAddress(endpoint) ?? assert.fail('no compute runs')
    const activity = await withAdminSession(address, secrets.stores, { purpose: 'activity' }, readActivity)
    if (activity.busy) count('busy at the look')
    await catalog.rows(sql`update endpoint set idle_counters = ${activity.counters} where id = ${endpoint_id}`)
  }
  return catalog.transaction(async (tx) => {
    await lockEndpointAndProject(tx, endpoint_id)
    const now = await findEndpoint(tx, endpoint_id)
    if (now?.pending_state !== null || (await unfinishedOperations(tx, now.branch_id)).length > 0) return undefined
    if (now.current_state === 'active') return queueSuspend(tx, now, 'idle')
    return random() < 0.5 ? queueCheck(tx, now) : undefined
  })
}

async function runRound(lane: Lane, round: number): Promise<void> {
  const { place, random } = lane
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  const kinds = Array.from({ length: Math.floor(random() * 3) }, () => pick(random))
  // The first rounds include each kind once, regardless of the seed.
  kinds.push(...Object.keys(CLIENTS).slice(round - 1, round))
  const early = random() < 0.2
  if (!early) await sleep(CALM_MS)
  const all = Promise.all(
    kinds.map(async (kind) => {
      await sleep(random() * SPREAD_MS)
      await CLIENTS[kind]?.(lane, over)
      count(kind)
    }),
  )
  all.catch(() => {})
  if (early) await sleep(random() * SPREAD_MS)
  const found = await findEndpoint(catalog, place.endpoint_id)
  const operation = await ask(lane)
  if (operation) {
    const [ended] = await awaitOperations(catalog, [operation.id], 60_000)
    assert.equal(ended?.status, 'finished', `${ended?.action}: ${ended?.error}`)
    const now = await findEndpoint(catalog, place.endpoint_id)
    const stayed = now?.compute_id === found?.compute_id
    count(operation.action === 'suspend_compute' ? (stayed ? 'stayed awake' : 'suspended') : 'checked')
  }
  end()
  await all
}

/** Asserts that all acknowledged rows exist, and only attempted ones. */
async function compare({ place, acknowledged, attempted }: Lane): Promise<void> {
  const rows = await query<{ number: number }>(neap, place.uri, 'select number from written')
  const stored = new Set(rows.map(({ number }) => number))
  assert.equal(stored.size, rows.length)
  assert.deepEqual(
    [...acknowledged].filter((number) => !stored.has(number)),
    [],
    'acknowledged and lost',
  )
  assert.deepEqual(
    [...stored].filter((number) => !attempted.has(number)),
    [],
  )
}

test('suspends that race with clients end no active session, refuse none, and lose no row', async (t) => {
  t.diagnostic(`seed ${SEED}`)
  t.after(() => t.diagnostic(JSON.stringify(counts)))
  await Promise.all(
    lanes.map(async (lane) => {
      for (let round = 1; round <= ROUNDS / ENDPOINTS; round++) {
        await runRound(lane, round)
        count('rounds')
        if (round % 50 === 0) await compare(lane)
      }
      await compare(lane)
      await Promise.all(lane.idle.map((client) => client.end()))
    }),
  )
  const failed = await catalog.rows(sql`select action, error from operation where status = 'failed'`)
  assert.deepEqual(failed, [])
  for (const what of ['suspended', 'stayed awake', 'checked', ...Object.keys(WEIGHTS)])
    assert.ok((counts[what] ?? 0) > 0, `${what} happened`)
})
