import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { connect, DOMAIN, type Fixture, makeFixture } from '../proxy/fixture.ts'
import { uriOf } from '../proxy/sql_over_http.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'

/* Strangers at one address guess the passwords of a role. All clients of these tests have that address too. */

let fixture: Fixture
let proxy: Proxy
let endpoint: string

before(async () => {
  fixture = await makeFixture()
  endpoint = await fixture.endpoint(await fixture.compute.start())
})
after(() => fixture.close())

interface Guessers {
  /** The number of answered guesses; each answer shows that the password is wrong. */
  readonly answered: () => number
  stop(): Promise<void>
}

/**
 * Starts `count` strangers, each with one connection at a time. @param patience ms until a stranger gives up and
 * reconnects
 */
function guess(count: number, patience?: number): Guessers {
  let answered = 0
  let over = false
  const open = new Set<pg.Client>()
  const all = Array.from({ length: count }, async (_, stranger) => {
    for (let turn = 0; !over; turn++) {
      const client = new pg.Client({
        host: '127.0.0.1',
        port: proxy.port,
        user: 'alice',
        password: `wrong ${stranger} ${turn}`,
        database: 'postgres',
        ssl: { rejectUnauthorized: false },
        options: `endpoint=${endpoint}`,
      })
      client.on('error', () => {})
      open.add(client)
      const timer = patience && setTimeout(() => hangUp(client), patience)
      await client.connect().catch((error: unknown) => {
        if (error instanceof pg.DatabaseError && error.code === '28P01') answered++
      })
      clearTimeout(timer)
      open.delete(client)
      void client.end()
    }
  })
  return {
    answered: () => answered,
    async stop() {
      over = true
      for (const client of open) hangUp(client)
      await Promise.all(all)
    },
  }
}

/** Closes the connection without waiting for the answer. */
const hangUp = (client: pg.Client): void => {
  ;(client as pg.Client & { connection: { stream: Socket } }).connection.stream.destroy()
}

const pause = (ms: number) => new Promise((resolve) => void setTimeout(resolve, ms))

for (const [how, strangers, patience] of [
  ['sixty clients that wait for answers', 60, undefined],
  ['forty clients that disconnect early', 40, 150],
] as const) {
  test(`${how} guess a few passwords a second, and valid logins of their address succeed`, async (t) => {
    proxy = await fixture.proxy()
    const guessers = guess(strangers, patience)
    try {
      // Until the guesses are slowed down or have used up the free ones.
      await pause(2_000)
      const [begun, already] = [performance.now(), guessers.answered()]
      const answers: string[] = []
      let slowest = 0
      for (let turn = 0; turn < 4; turn++) {
        const from = performance.now()
        const right = Array.from({ length: 3 }, async () => {
          const client = await connect(proxy.port, endpoint).catch((error: unknown) => String(error))
          answers.push(typeof client === 'string' ? client : 'in')
          if (typeof client !== 'string') await client.end()
        })
        await Promise.all(right)
        slowest = Math.max(slowest, performance.now() - from)
      }
      while (performance.now() - begun < 5_000) await pause(20)
      const perSecond = ((guessers.answered() - already) * 1_000) / (performance.now() - begun)
      const letIn = answers.filter((answer) => answer === 'in').length
      t.diagnostic(
        `${perSecond.toFixed(1)} guesses/s answered, ${letIn} of 12 let in, slowest ${slowest.toFixed(0)} ms`,
      )
      assert.equal(letIn, 12, answers.join())
      assert.ok(perSecond <= 6, `${perSecond} guesses a second were answered`)
    } finally {
      await guessers.stop()
      await proxy.stop()
    }
  })
}

test('guesses over HTTP get the same refusal for a wrong password, role or endpoint', async () => {
  proxy = await fixture.proxy()
  const refusals = new Set<string>()
  for (const [id, user] of [
    [endpoint, 'alice'],
    [endpoint, 'no_such_role'],
    ['ep-no-such-00000000', 'alice'],
  ] as const) {
    const uri = uriOf(id, 'wrong').replace('alice', user)
    const response = await fetchSql(uri)
    refusals.add(response.replaceAll(user, 'alice'))
  }
  assert.equal(refusals.size, 1, [...refusals].join())
  await proxy.stop()
})

async function fetchSql(uri: string): Promise<string> {
  const { request } = await import('node:https')
  return new Promise((resolve, reject) => {
    request(
      {
        host: '127.0.0.1',
        port: proxy.port,
        path: '/sql',
        method: 'POST',
        rejectUnauthorized: false,
        servername: `x.${DOMAIN}`,
        headers: { 'neon-connection-string': uri },
      },
      (response) => {
        let text = ''
        response
          .on('data', (chunk: Buffer) => (text += chunk))
          .on('end', () => resolve(`${response.statusCode} ${text}`))
      },
    )
      .on('error', reject)
      .end('{"query":"select 1"}')
  })
}
