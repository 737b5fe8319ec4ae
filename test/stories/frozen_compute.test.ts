import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { postmastersOf, until } from '../processes.ts'
import { firstPlace, type Place } from '../project.ts'

/*
 * Requests that query a compute that does not answer: they proceed without its answer, and hold no transaction while
 * they wait.
 */

let neap: Neap
let place: Place
let frozen: number[] = []

before(async () => {
  neap = await startNeap({ env: { NEAP_LOG_LEVEL: 'debug' } })
  place = await firstPlace(neap)
  const compute = postmastersOf(neap.ready.data_dir).find(({ command }) => command.includes(place.branch_id))
  // The steps of operations do wait, and hold their transaction meanwhile.
  frozen = [neap.part('worker'), compute?.pid] as number[]
  for (const pid of frozen) process.kill(pid, 'SIGSTOP')
})
after(async () => {
  for (const pid of frozen) process.kill(pid, 'SIGCONT')
  await neap?.stop()
})

/** Catalog transactions that have been idle for more than 0.3 seconds. */
const waiting = () =>
  catalogQuery(
    neap,
    `select pid, query from pg_stat_activity
      where state = 'idle in transaction' and state_change < now() - interval '0.3 s'`,
  )

/** How often the API has asked the compute and was not answered, by its log. */
const unanswered = (): number =>
  readFileSync(join(neap.ready.data_dir, 'parts/api.log'), 'utf8').split(
    'could not read the roles and databases of a compute',
  ).length - 1

test('no transaction of a request waits for a compute', async () => {
  const branch = `/projects/${place.project_id}/branches`
  const requests = [
    ['POST', branch, { branch: { parent_id: place.branch_id } }],
    ['POST', `${branch}/${place.branch_id}/roles`, { role: { name: 'reader' } }],
    ['POST', `${branch}/${place.branch_id}/databases`, { database: { name: 'another', owner_name: 'reader' } }],
    ['POST', `${branch}/${place.branch_id}/roles/reader/reset_password`, undefined],
    ['DELETE', `${branch}/${place.branch_id}/databases/another`, undefined],
    ['DELETE', `${branch}/${place.branch_id}/roles/reader`, undefined],
  ] as const
  for (const [method, path, body] of requests) {
    let answered = false
    const answer = send(neap, method, path, { body }).finally(() => (answered = true))
    await until(`the answer to ${method} ${path}`, async () => {
      assert.deepEqual(await waiting(), [])
      return answered
    })
    const { status } = await answer
    assert.ok(status === 200 || status === 201, `${method} ${path}: ${status}`)
  }
  // Each request has asked the compute and given up: without that the test would show nothing.
  assert.equal(unanswered(), requests.length)
})
