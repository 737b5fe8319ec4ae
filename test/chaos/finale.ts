import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { catalogQuery } from '../admin.ts'
import { postmastersOf, until } from '../processes.ts'
import { sharedMemoryOfOthers } from '../shared_memory.ts'
import { enter, flawOf, holdings } from './data.ts'
import { removeProjects } from './requests.ts'
import { healed, request, type Spot, standing, type World } from './world.ts'

/** The error of an operation that a deletion cancelled. */
const CAUSES = [
  'cancelled: ',
  'the endpoint was deleted',
  'the endpoint is disabled',
  'branch \\S+ is gone',
  'the branch has no data',
]
const OVERTAKEN = new RegExp(`^(dependency failed: \\w+ \\S+: )?(${CAUSES.join('|')})`)
const ENDED = /^Postgres ended while it was checked/
/** Errors that a full disk explains. */
const NO_ROOM = /no space|disk|room|ENOSPC|not done within|given up|could not write|dependency failed/i

const NOTICED_MS = 30_000

interface Failed {
  readonly action: string
  readonly branch_id: string
  readonly reason: string | null
  readonly error: string
  readonly since: number
  readonly until: number
}

/**
 * The checks at rest: data, operations, audit, logs. Then it deletes all resources and checks that they leave no trace.
 */
export async function finale(world: World, secrets: readonly string[]): Promise<void> {
  await healed(world)
  await operationsEnd(world)
  for (const spot of standing(world)) await inspect(world, spot)
  await justified(world)
  await accounted(world)
  await audited(world)
  confidential(world, secrets)
  await removeProjects(world, world.spots[0]?.project_id ?? '')
  await removeBranches(world)
  await operationsEnd(world)
  await removed(world)
}

export async function operationsEnd(world: World): Promise<void> {
  // The catalog may be restarting after a full disk. One answer both ends the wait and is judged: a later one may show
  // a suspend that the idle loop has begun meanwhile.
  type Open = { id: string; action: string; step: string; error: string | null }
  let left: readonly Open[] | undefined
  async function ended(): Promise<boolean> {
    left = undefined
    left = await catalogQuery<Open>(
      world.neap,
      'select id, action, step, error from operation where finished_at is null',
    )
    return left.length === 0
  }
  await until('the end of all operations', () => ended().catch(() => false)).catch(() => {})
  const open = left ? left[0] && `an operation does not end: ${JSON.stringify(left[0])}` : 'the catalog does not answer'
  world.checks.record('ended', open)
}

/** Checks the room that endpoints take and the time that their computes are said to have run. */
export async function accounted({ neap, checks }: World): Promise<void> {
  const [wrong] = await catalogQuery<{ what: string }>(
    neap,
    `select 'idle endpoint ' || id || ' takes room on ' || room_host_id as what from endpoint
      where room_host_id is not null and current_state <> 'active' and pending_state is null
     union all
     select 'branch ' || b.id || ' counts ' || sum(c.active_seconds) || ' s of ' || age from branch b,
            lateral (select extract(epoch from clock_timestamp() - b.created_at) as age) a, consumption c
      where c.branch_id = b.id and c.period = 'month' group by b.id, age having sum(c.active_seconds) > age + 1`,
  )
  checks.record('accounted', wrong?.what)
}

/** Checks that a branch has all acknowledged entries and its parent's data, and no entries of other branches. */
export async function inspect(world: World, spot: Spot): Promise<void> {
  const { checks } = world
  const client = await enter({ ...world, stopping: new AbortController().signal }, spot, () => {})
  if (!client) return
  // A snapshot of now: writers continue, so later acknowledgements may exceed the contents read here.
  const promised = spot.writers.map(({ name, acknowledged }) => ({ name, acknowledged }))
  const found = await holdings(client, spot.branch_id)
  await client.end()
  const flaw = flawOf(found)
  checks.record('balanced', flaw.balanced && `${spot.name}: ${flaw.balanced}`)
  const short = promised.find(({ name, acknowledged }) => {
    const last = found.sequences.find(({ writer }) => writer === name)?.last ?? 0
    return last < acknowledged
  })
  checks.record('durable', flaw.durable ?? (short && `${spot.name} lacks acknowledged entries of ${short.name}`))
  const own = new Set(lineOf(spot).map(({ branch_id }) => branch_id))
  const foreign = found.branches.find((branch) => !own.has(branch))
  const changed = spot.inherited !== undefined && spot.inherited !== found.inherited
  checks.record(
    'isolated',
    foreign ? `${spot.name} has entries of ${foreign}` : changed && `${spot.name}: its past has changed`,
  )
}

const lineOf = (spot: Spot): Spot[] => [
  spot,
  ...[spot.before, spot.parent].flatMap((earlier) => (earlier ? lineOf(earlier) : [])),
]

export async function justified({ neap, checks, history }: World): Promise<void> {
  const failed = await catalogQuery<Failed>(
    neap,
    `select action, branch_id, input ->> 'reason' as reason, error,
            extract(epoch from created_at)::float8 * 1000 as since,
            extract(epoch from finished_at)::float8 * 1000 as until
       from operation where status = 'failed'`,
  )
  const isExplained = ({ branch_id, reason, error, since, until: end }: Failed): boolean => {
    if (OVERTAKEN.test(error)) return true
    // The worker records a killed compute when it is back; or the kill hit an availability check.
    if (reason === 'crash' || ENDED.test(error))
      return history.excuse('sessions', since - NOTICED_MS, end, branch_id) !== undefined
    return NO_ROOM.test(error) && history.excuse('sessions', since, end) === 'the disk is full'
  }
  const wrong = failed.find((operation) => !isExplained(operation))
  checks.record('justified', wrong && `an operation failed: ${JSON.stringify(wrong)}`)
}

export async function audited({ neap, checks, answered }: World): Promise<void> {
  const rows = await catalogQuery<{ request_id: string; count: number }>(
    neap,
    'select request_id, count(*)::int as count from audit group by request_id',
  )
  const counts = new Map(rows.map(({ request_id, count }) => [request_id, count]))
  const many = rows.find(({ count }) => count > 1)
  const wrong = [...answered].find(([id, how]) => (counts.get(id) ?? 0) !== (how === 'anew' ? 1 : 0))
  const words = wrong && `request ${wrong[0]}, answered ${wrong[1]}, has ${counts.get(wrong[0]) ?? 0} audit rows`
  checks.record('audited', many ? `request ${many.request_id} has ${many.count} audit rows` : words)
}

/** Checks all logs of Neap and its computes for secrets. */
export function confidential({ neap, dataDir, checks }: World, secrets: readonly string[]): void {
  const files = readdirSync(join(dataDir, 'logs'), { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  )
  const logs = [neap.stderr(), ...files.map((file) => readFileSync(join(file.parentPath, file.name), 'utf8'))]
  const shown = secrets.find((secret) => logs.some((log) => log.includes(secret)))
  checks.record('confidential', shown && `a secret that begins with ${shown.slice(0, 4)} stands in a log`)
}

/** Deletes all snapshots, and for good all branches except the first, children before their parents. */
async function removeBranches(world: World): Promise<void> {
  for (const spot of world.spots) spot.leaving = spot.parent !== undefined
  type Row = { id: string; project_id: string }
  for (const { id, project_id } of await catalogQuery<Row>(world.neap, 'select id, project_id from snapshot'))
    await request(world, 'DELETE', `/projects/${project_id}/snapshots/${id}`)
  for (;;) {
    const leaves = await catalogQuery<Row>(
      world.neap,
      `select id, project_id from branch b
        where not is_default and (deleted_at is null or recoverable_until is not null)
          and not exists (select from branch child where child.parent_id = b.id and child.deleted_at is null)`,
    )
    if (leaves.length === 0) return
    for (const { id, project_id } of leaves)
      await request(world, 'DELETE', `/projects/${project_id}/branches/${id}?hard_delete=true`)
  }
}

/** Checks that no branch except the first has a process, a directory or a row. */
export async function removed({ neap, dataDir, checks, spots }: World): Promise<void> {
  const kept = spots[0]?.branch_id ?? ''
  const rows = await catalogQuery<{ what: string }>(
    neap,
    `select 'branch ' || id as what from branch where (store_id is not null or deleted_at is null) and id <> $1
     union all select 'role of ' || branch_id from role where branch_id <> $1
     union all select 'database of ' || branch_id from database where branch_id <> $1
     union all select 'endpoint of ' || branch_id from endpoint where branch_id <> $1
     union all select 'store ' || id from store where branch_id <> $1
     union all select 'hold ' || resource from operation_hold h
        where not exists (select from operation o
                           where o.project_id = h.project_id and o.seq = h.seq and o.finished_at is null)`,
    [kept],
  )
  const [{ number } = { number: '0' }] = await catalogQuery<{ number: string }>(
    neap,
    'select s.number from branch b join store s on s.id = b.store_id where b.id = $1',
    [kept],
  )
  const entries = (name: string, known: readonly string[]) =>
    readdirSync(join(dataDir, name))
      .filter((entry) => !known.includes(entry))
      .map((entry) => `${name}/${entry}`)
  const left = [
    ...rows.map(({ what }) => what),
    ...entries('branches', [kept]),
    ...entries('trash', []),
    ...entries('run', [`b${Number(number).toString(36)}`, 'catalog']),
    ...entries('logs', [kept]).filter((name) => name.startsWith('logs/br-')),
    ...postmastersOf(dataDir)
      .filter(({ directory }) => !['catalog', kept].includes(directory.split('/').at(-2) ?? ''))
      .map(({ directory }) => `a postmaster on ${directory}`),
    ...sharedMemoryOfOthers(dataDir, Number(number)).map((what) => `shared memory ${what}`),
  ]
  checks.record('removed', left[0] && `left: ${left.join(', ')}`)
}
