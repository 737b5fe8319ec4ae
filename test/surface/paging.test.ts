import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { embeddedCatalogUrl } from '../../src/catalog/embedded.ts'
import { loadOrCreateSecrets } from '../../src/secrets/secrets.ts'
import { refused, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { type Actor, owner } from './account.ts'
import { realScene, type Scene } from './scene.ts'
import { openState, type State } from './state.ts'

/* Pages of operations while several processes insert more, clocks step back, and listed operations end. */

const PROCESSES = 3

let neap: Neap
let state: State
let actor: Actor
let scene: Scene
let inserters: ChildProcess[] = []

before(async () => {
  neap = await startNeap({ env: { NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_RATE_LIMIT_PER_SECOND: '0' } })
  state = await openState(neap)
  actor = await owner(neap)
  scene = await realScene(neap, actor)
  const { data_dir } = neap.ready
  const secrets = await loadOrCreateSecrets(join(data_dir, 'secret.key'))
  const url = embeddedCatalogUrl(join(data_dir, 'run'), secrets.catalogPasswords()[0])
  const program = join(import.meta.dirname, 'inserter.ts')
  inserters = Array.from({ length: PROCESSES }, () => fork(program, [url, scene.project_id, actor.account_id]))
  await inserted(200)
})

after(async () => {
  for (const inserter of inserters) {
    const ended = once(inserter, 'exit')
    inserter.disconnect()
    await ended
  }
  await state?.close()
  await neap?.stop()
})

async function count(): Promise<number> {
  const [row] = await state.query<{ count: string }>('select count(*) from operation where project_id = $1', [
    scene.project_id,
  ])
  return Number(row?.count)
}

/** Waits until this many more exist. */
async function inserted(more: number): Promise<void> {
  const then = await count()
  await until(`${more} more operations`, async () => (await count()) >= then + more)
}

async function idsNow(where = 'true'): Promise<string[]> {
  const rows = await state.query<{ id: string }>(
    `select id from operation where project_id = $1 and ${where} order by seq desc`,
    [scene.project_id],
  )
  return rows.map(({ id }) => id)
}

interface Page {
  readonly operations: readonly { readonly id: string; readonly created_at: string }[]
  readonly pagination?: { readonly cursor: string }
}

async function page(query: Record<string, string>): Promise<Page> {
  const search = new URLSearchParams(query).toString()
  const { status, body } = await send(neap, 'GET', `/projects/${scene.project_id}/operations?${search}`)
  assert.equal(status, 200, body.message)
  return body as unknown as Page
}

/** Follows the cursors to the end, as clients do; `between` runs after each page. */
async function allPages(query: Record<string, string>, between: (pages: number) => Promise<void> = async () => {}) {
  const seen: Page['operations'][number][] = []
  let cursor: string | undefined
  for (let pages = 1; ; pages++) {
    const { operations, pagination } = await page({ ...query, ...(cursor && { cursor }) })
    if (operations.length === 0) {
      assert.equal(pagination, undefined)
      return seen
    }
    assert.equal(pagination?.cursor, operations.at(-1)?.created_at)
    seen.push(...operations)
    cursor = pagination?.cursor
    await between(pages)
  }
}

/** Asserts that every initial operation appears exactly once and in order, without duplicates, newest first. */
function exact(seen: Page['operations'], first: readonly string[]): void {
  const ids = seen.map(({ id }) => id)
  assert.equal(new Set(ids).size, ids.length, 'an operation was returned twice')
  assert.deepEqual(
    ids.filter((id) => first.includes(id)),
    first,
  )
  const times = seen.map(({ created_at }) => created_at)
  assert.deepEqual(times, times.toSorted().toReversed())
  assert.equal(new Set(times).size, times.length)
}

for (const limit of ['1', '7', '100'])
  test(`pages of ${limit} return each operation exactly once while three processes insert`, async () => {
    const first = (await idsNow()).slice(0, Number(limit) * 60)
    const seen = await allPages({ limit })
    exact(seen.slice(0, seen.findIndex(({ id }) => id === first.at(-1)) + 1), first)
    await inserted(1)
  })

test('pages return each operation exactly once when the clock steps back by an hour', async () => {
  const first = await idsNow()
  const ahead = `update project set last_operation_at = last_operation_at + interval '1 hour' where id = $1`
  const seen = await allPages({ limit: '11' }, async (pages) => {
    // As if the last operation had been inserted while the clock was an hour ahead: later ones have earlier clock
    // times.
    if (pages === 3) {
      await state.query(ahead, [scene.project_id])
      await inserted(20)
    }
  })
  exact(seen, first)
  const again = await idsNow()
  exact(await allPages({ limit: '50' }), again)
})

test('pages return each operation exactly once while operations end', async () => {
  const first = await idsNow()
  const seen = await allPages({ limit: '13' }, async () => {
    await state.query(
      `update operation set status = 'finished', finished_at = clock_timestamp(), updated_at = clock_timestamp()
        where id in (select id from operation where project_id = $1 and finished_at is null order by random() limit 5)`,
      [scene.project_id],
    )
  })
  exact(seen, first)
})

test('filtered pages return each matching operation exactly once', async () => {
  for (const [query, where] of [
    [{ branch_id: 'br-paged' }, `branch_id = 'br-paged'`],
    [{ endpoint_id: 'ep-paged' }, `endpoint_id = 'ep-paged'`],
    [{ action: 'toil' }, `action = 'toil'`],
    [{ endpoint_id: 'ep-paged', action: 'toil' }, `endpoint_id = 'ep-paged' and action = 'toil'`],
    [{ status: 'finished' }, `status = 'finished'`],
    [{ status: 'scheduling', action: 'toil' }, `status = 'scheduling' and action = 'toil'`],
    [{ status: 'failed' }, `status = 'failed'`],
  ] as const) {
    const first = await idsNow(where)
    const seen = await allPages({ limit: '9', ...query })
    exact(seen, first)
    const others = new Set(await idsNow(`not (${where})`))
    assert.deepEqual(
      seen.filter(({ id }) => others.has(id)),
      [],
      JSON.stringify(query),
    )
  }
})

test('an invalid cursor is refused', async () => {
  for (const cursor of [
    'x',
    '1',
    '2026-01-01',
    '2026-01-01T00:00:00',
    '2026-13-01T00:00:00Z',
    '2026-02-30T00:00:00Z',
    '0000-01-01T00:00:00Z',
    '2026-01-01T24:00:01Z',
    '2026-01-01T00:00:00.1234567Z',
    '2026-01-01T00:00:00+01:00',
    'infinity',
    `' or true --`,
    '\0',
  ]) {
    const path = `/projects/${scene.project_id}/operations?${new URLSearchParams({ cursor }).toString()}`
    refused(await send(neap, 'GET', path), 400, 'INVALID_REQUEST', /cursor|the query/)
  }
})
