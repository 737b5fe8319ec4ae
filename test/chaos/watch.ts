import { catalogQuery } from '../admin.ts'
import { send } from '../http.ts'
import { postmastersOf } from '../processes.ts'
import type { Actor } from '../surface/account.ts'
import { pause, type World } from './world.ts'

/** A worker may be frozen for this long: an operation past its deadline by less may still fail in time. */
const LATE_SECONDS = 60

/** Runs the checks that are possible during the run, until it ends. */
export async function watch(world: World, otherAccount: Actor): Promise<void> {
  await Promise.all([
    every(world, 50, () => single(world)),
    every(world, 2_000, () => ended(world)),
    every(world, 3_000, () => paged(world)),
    every(world, 1_000, () => separated(world, otherAccount)),
  ])
}

async function every(world: World, ms: number, look: () => Promise<void> | void): Promise<void> {
  while (!world.stopping.aborted) {
    await look()
    await pause(ms)
  }
}

export function single({ dataDir, checks }: World): void {
  const directories = postmastersOf(dataDir).map(({ directory }) => directory)
  const second = directories.find((directory, index) => directories.indexOf(directory) !== index)
  checks.record('single', second && `two postmasters on ${second}`)
}

/** Returns undefined when the catalog does not answer. */
const ask = <R extends object>({ neap }: World, sql: string, values: unknown[] = []): Promise<R[] | undefined> =>
  catalogQuery<R>(neap, sql, values).catch(() => undefined)

export async function ended(world: World): Promise<void> {
  const late = await ask<{ id: string; action: string; step: string; error: string | null }>(
    world,
    `select id, action, step, error from operation
      where finished_at is null and deadline_at < clock_timestamp() - make_interval(secs => $1)`,
    [LATE_SECONDS],
  )
  if (late) world.checks.record('ended', late[0] && `an operation is over its time: ${JSON.stringify(late[0])}`)
}

/** Lists the operations of the first project page by page: each one that existed at the start must appear once. */
export async function paged(world: World): Promise<void> {
  const { neap, key, checks } = world
  const project = world.spots[0]?.project_id ?? ''
  const there = await ask<{ id: string }>(world, 'select id from operation where project_id = $1', [project])
  if (!there) return
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const from = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const path = `/projects/${project}/operations?limit=100${from}`
    const answer = await send(neap, 'GET', path, { key }).catch(() => undefined)
    // After an error the listing is abandoned; the next one starts from the beginning.
    if (answer?.status !== 200) return
    const { operations, pagination } = answer.body as unknown as {
      operations: { id: string }[]
      pagination?: { cursor: string }
    }
    seen.push(...operations.map(({ id }) => id))
    cursor = pagination?.cursor
  } while (cursor !== undefined)
  const listed = new Set(seen)
  const missed = there.find(({ id }) => !listed.has(id))
  const wrong = missed ? `operation ${missed.id} was skipped` : listed.size < seen.length && 'an operation came twice'
  checks.record('paged', wrong)
}

/** The key of another account: lists must be empty, and guessed ids not found. */
export async function separated(world: World, otherAccount: Actor): Promise<void> {
  const { neap, checks } = world
  const spot = world.spots[Math.floor(Math.random() * world.spots.length)]
  if (!spot) return
  const base = `/projects/${spot.project_id}`
  const paths = ['/projects', base, `${base}/operations`, `${base}/endpoints/${spot.endpoint_id}`]
  const path = paths[Math.floor(Math.random() * paths.length)] ?? base
  const answer = await send(neap, 'GET', path, { key: otherAccount.key }).catch(() => undefined)
  if (!answer || answer.status >= 500) return
  const nothing = path === '/projects' ? (answer.body['projects'] as unknown[]).length === 0 : answer.status === 404
  checks.record('separated', !nothing && `another account was answered ${answer.status} to ${path}`)
}
