/* Latencies of other tenants while one tenant runs all its attacks, against the same without attacks. */
import { readFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { askSql, type AttackName, ATTACKS, startHostile, type Tally } from '../test/hostile_tenant.ts'
import { send } from '../test/http.ts'
import { type Neap, startNeap } from '../test/neap.ts'
import { branchOff, firstPlace, type Place, suspend } from '../test/project.ts'
import { otherAccount } from '../test/surface/account.ts'
import { clientConfig, neapTarget } from './load/targets.ts'
import { percentile, report } from './samples.ts'

const [rounds = '5', seconds = '8', alone] = process.argv.slice(2)
/** How long an attack runs before the measurement. */
const SETTLE_MS = 2_000
/** CPU contention from a compute: a separate row without a mark, since fair_shares measures it. */
const OF_CPU: readonly AttackName[] = ['load']
/** Excluded: these end the tenant's own sessions, which the other attacks use. */
const LEFT_OUT: readonly AttackName[] = ['kills']
const names = (Object.keys(ATTACKS) as AttackName[]).filter((name) => !LEFT_OUT.includes(name))
const WITHOUT = 'without'
const WITH = 'with'
const CPU = 'with CPU'
/** The attacks of each run: all at once, or each that matches an expression alone, to find the expensive ones. */
const ways: Record<string, AttackName[]> =
  alone === undefined
    ? { [WITHOUT]: [], [WITH]: names.filter((name) => !OF_CPU.includes(name)), [CPU]: [...OF_CPU] }
    : {
        [WITHOUT]: [],
        ...Object.fromEntries(names.filter((name) => new RegExp(alone).test(name)).map((name) => [name, [name]])),
      }
const ASKED = ['wake', 'connect', 'sql', 'get'] as const

const samples: Record<string, number[]> = {}
const tallies: Partial<Record<AttackName, Tally>> = {}
const neap = await startNeap()
try {
  const place = await firstPlace(neap)
  const sleeper = await branchOff(neap, place)
  const tenant = await startTenant(neap)
  const order = Object.entries(ways)
  for (let round = 0; round <= Number(rounds); round++) {
    // Reverse the order every other round, so that each way follows each other one.
    for (const [way, attacks] of round % 2 === 0 ? order : order.toReversed()) {
      if (attacks.length > 0) tenant.begin(attacks)
      await sleep(SETTLE_MS)
      const found = await measure(place, sleeper, Number(seconds) * 1_000)
      if (attacks.length > 0) count(await tenant.end())
      // The first round is a warm-up.
      if (round === 0) continue
      for (const what of ASKED) (samples[`${what} ${way}`] ??= []).push(...found[what])
    }
  }
  await tenant.stop()
} finally {
  await neap.stop()
}

function count(found: typeof tallies): void {
  for (const [name, { done, failed }] of Object.entries(found)) {
    const tally = (tallies[name as AttackName] ??= { done: 0, failed: 0 })
    tally.done += done
    tally.failed += failed
  }
}

/** Creates a project of another account, and starts the tenant's process with that account's key. */
async function startTenant(at: Neap) {
  const { key } = await otherAccount(at, 'hostile')
  const { body } = await send(at, 'POST', '/projects', { key, body: { project: { name: 'hostile' } } })
  const made = body as unknown as {
    project: { id: string }
    branch: { id: string }
    endpoints: { id: string }[]
    connection_uris: { connection_uri: string }[]
  }
  const theirs: Place = {
    project_id: made.project.id,
    branch_id: made.branch.id,
    endpoint_id: made.endpoints[0]?.id ?? '',
    uri: made.connection_uris[0]?.connection_uri ?? '',
  }
  return startHostile({ neap: at, place: theirs, key })
}

/** Measures each request in turn, sequentially, for `ms` milliseconds. */
async function measure(place: Place, sleeper: Place, ms: number): Promise<Record<(typeof ASKED)[number], number[]>> {
  const found: Record<(typeof ASKED)[number], number[]> = { wake: [], connect: [], sql: [], get: [] }
  const agent = new Agent({ keepAlive: true, ca: readFileSync(neap.ready.ca_file), servername: 'localhost' })
  const config = clientConfig(neapTarget(neap))
  const waking = clientConfig(neapTarget({ ...neap, ready: { ...neap.ready, connection_uri: sleeper.uri } }))
  const until = performance.now() + ms
  while (performance.now() < until) {
    await suspend(neap, sleeper)
    found.wake.push(await timed(() => firstRow(waking)))
    for (let turn = 0; turn < 3; turn++) {
      found.connect.push(await timed(() => firstRow(config)))
      found.sql.push(await timed(() => askSql(agent, place, 'select 1')))
      found.get.push(await timed(() => get(place)))
    }
  }
  agent.destroy()
  return found
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

async function firstRow(config: pg.ClientConfig): Promise<void> {
  const client = new pg.Client(config)
  await client.connect()
  await client.query('select 1')
  await client.end()
}

async function get({ project_id }: Place): Promise<void> {
  const { status, body } = await send(neap, 'GET', `/projects/${project_id}/endpoints`)
  if (status !== 200) throw new Error(body.message)
}

const p95 = (what: string, way: string) => percentile(samples[`${what} ${way}`] ?? [], 0.95)
const ratio = (what: string, way: string) => p95(what, way) / p95(what, WITHOUT)
const told = Object.entries(tallies).map(([name, { done, failed }]) => `${name} ${done}/${failed}`)
const unmarked = Object.keys(ways)
  .filter((way) => way !== WITHOUT && way !== WITH)
  .map((way) => {
    const ratios = ASKED.map((what) => `${what} ${ratio(what, way).toFixed(2)}×`)
    return `${way}: p95 / p95 without, no mark: ${ratios.join(', ')}`
  })
report(
  'hostile',
  [
    'others, one after the other: first row of a suspended endpoint (wake), ' +
      'of one that runs over a new connection (connect), select 1',
    '  over HTTP on a kept connection (sql), GET endpoints with a key (get); ' +
      'TLS and SCRAM as clients have them, settings as they are',
    'with: a tenant with a key and a project of its own, from a process in a session of its own, ' +
      'attacks in all ways at once',
    'with CPU: only by two queries that take a core each, which nothing keeps from it yet',
    `what it did, and what failed: ${told.join(', ')}`,
    `in turn, ${rounds} rounds of ${seconds} s each; the first round is left out`,
    ...unmarked,
  ],
  samples,
  WITH in ways
    ? ASKED.map((what) => ({ what: `${what}: p95 with / p95 without`, value: ratio(what, WITH), most: 1.5, unit: '×' }))
    : [],
)
