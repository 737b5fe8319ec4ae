import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { query, without } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { firstPlace, type Place, suspend } from '../project.ts'
import { peer, withoutPeers } from './peers.ts'

/*
 * One program per driver makes the same requests in the driver's own style: prepared statements that are reused, COPY
 * in both directions, pipelining, an error within a pipeline and within a transaction, a cancel request. Then its
 * endpoint is suspended.
 */

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
})

after(() => neap?.stop())

const program = (name: string) => fileURLToPath(new URL(`drivers/${name}`, import.meta.url))

/** The URI in the form of JDBC, with the user as a parameter. */
function jdbc(uri: string): string {
  const { host, pathname, searchParams, username, password } = new URL(uri)
  searchParams.set('user', decodeURIComponent(username))
  searchParams.set('password', decodeURIComponent(password))
  return `jdbc:postgresql://${host}${pathname}?${searchParams.toString()}`
}

const JAR = 'java/postgresql-42.7.8.jar'
const PYTHON = 'python/bin/python'

const DRIVERS = {
  psycopg: { skip: withoutPeers(PYTHON), command: [peer(PYTHON), program('psycopg_client.py')], uri: String },
  asyncpg: { skip: withoutPeers(PYTHON), command: [peer(PYTHON), program('asyncpg_client.py')], uri: String },
  pgx: { skip: withoutPeers('bin/pgx_client'), command: [peer('bin/pgx_client')], uri: String },
  pgjdbc: {
    skip: withoutPeers(JAR) || without('java'),
    command: ['java', '-cp', peer(JAR), program('Jdbc.java')],
    uri: jdbc,
  },
}

interface Step {
  readonly step: string
  readonly value: unknown
}

/** Conditions that a program waits for at a step. */
const AWAITED: Record<string, () => Promise<unknown>> = {
  suspend_now: () => suspend(neap, place),
  cancel_soon: () =>
    until('the query to be cancelled runs', async () => {
      const running = "select from pg_stat_activity where state = 'active' and query = 'select pg_sleep(60)'"
      return (await query(neap, place.uri, running)).length > 0
    }),
}

/** The steps that a program prints; it continues when told to. */
async function stepsOf([file = '', ...args]: readonly string[], uri: string): Promise<Step[]> {
  const child = spawn(file, [...args, uri], { stdio: ['pipe', 'pipe', 'pipe'] })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = once(child, 'close')
  const steps: Step[] = []
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const step = JSON.parse(line) as Step
      steps.push(step)
      if (!(step.step in AWAITED)) continue
      await AWAITED[step.step]?.()
      child.stdin.write('\n')
    }
  } finally {
    child.kill()
  }
  await ended
  assert.equal(stderr, '', JSON.stringify(steps))
  return steps
}

const EXPECTED = {
  prepared: 4950,
  copy: 20_000,
  pipeline: 39_800,
  failed_pipeline: '22012',
  transaction: '23505',
  left: 0,
  cancel_soon: null,
  cancel: '57014',
  after_cancel: 1,
  suspend_now: null,
  after_suspend: null,
  again: 20_000,
}

for (const [name, { skip, command, uri }] of Object.entries(DRIVERS))
  for (const pooled of [false, true])
    test(`${name}, ${pooled ? 'pooled' : 'direct'}`, { skip }, async () => {
      const there = pooled ? place.uri.replace(place.endpoint_id, `${place.endpoint_id}-pooler`) : place.uri
      const said = Object.fromEntries((await stepsOf(command, uri(there))).map(({ step, value }) => [step, value]))
      if (!pooled) {
        // A direct session ends with its compute; a driver that checks its socket late finds it closed.
        assert.match(String(said['after_suspend']), /^(57P01|closed)$/)
        said['after_suspend'] = null
      }
      assert.deepEqual(said, EXPECTED)
    })
