/*
 * What a tenant may do in a project of its own that must disturb no other: copies that stand still, a crowd of
 * branches, a deletion of what is in use, a subscriber that reads nothing.
 */
import type pg from 'pg'
import { connect } from '../clients.ts'
import type { Place } from '../project.ts'
import type { Random } from '../random.ts'
import { freezeCheckpointer } from '../stuck_copies.ts'
import { newTenant, removeTenant } from './tenant.ts'
import { awaitEnds, isShortOfDisk, pause, request, type World } from './world.ts'

const STUCK = 12
const CROWD = 32
const BUSY_BRANCHES = 3
const CLIENTS_OF_EACH = 4

/** Branches whose copies wait for a checkpoint that does not come. */
export async function stuckCopies(world: World, random: Random): Promise<void> {
  const place = await newTenant(world, 'stuck copies')
  await using client = await enterTenant(world, place)
  await client.query('select 1')
  const thaw = await freezeCheckpointer(world.neap, place)
  try {
    await makeBranches(world, place, STUCK)
    await pause(random.between(1_000, 8_000))
  } finally {
    thaw()
  }
  await removeTenant(world, place)
}

/** As many branches at once as a CI makes. Each has its parent's rows. */
export async function crowd(world: World): Promise<void> {
  const place = await newTenant(world, 'a crowd')
  await using client = await enterTenant(world, place)
  await client.query('create table it as select generate_series(1, 1000) as n')
  const made = await makeBranches(world, place, CROWD, [{ type: 'read_write' }])
  for (const answer of made) await awaitEnds(world, answer)
  const last = made.at(-1)?.body['endpoints'] as { id: string }[] | undefined
  if (last?.[0] && !world.stopping.aborted) {
    await using child = await enterTenant(world, { ...place, uri: uriOf(place, last[0].id) })
    const { rows } = await child.query<{ count: number }>('select count(*)::int from it')
    const lacks = rows[0]?.count !== 1000 && `a branch of a crowd has ${rows[0]?.count} rows of 1000`
    world.checks.record('isolated', lacks)
  }
  await removeTenant(world, place)
}

/** Deletes a project whose computes serve clients: no session outlives it. */
export async function deletedInUse(world: World): Promise<void> {
  const place = await newTenant(world, 'in use')
  const made = await makeBranches(world, place, BUSY_BRANCHES, [{ type: 'read_write' }])
  for (const answer of made) await awaitEnds(world, answer)
  const uris = made.flatMap(({ body }) =>
    ((body['endpoints'] ?? []) as { id: string }[]).map(({ id }) => uriOf(place, id)),
  )
  const clients = await Promise.all(
    uris.flatMap((uri) => Array.from({ length: CLIENTS_OF_EACH }, () => enterTenant(world, { ...place, uri }))),
  )
  const ended = Promise.allSettled(
    clients.map(async (client) => {
      for (;;) await client.query('select pg_sleep(0.01)')
    }),
  )
  await removeTenant(world, place)
  // The client sees the end of its session a moment later.
  const outcome = await Promise.race([ended, pause(5_000).then(() => 'late')])
  world.checks.record('removed', outcome === 'late' && 'a session outlives its project')
  for (const client of clients) await client.end().catch(() => {})
}

/** A subscriber that never reads nor times out: a suspend ends nevertheless. */
export async function hungSubscriber(world: World): Promise<void> {
  const place = await newTenant(world, 'hung subscriber')
  const body = { project: { settings: { enable_logical_replication: true } } }
  await awaitEnds(world, await request(world, 'PATCH', `/projects/${place.project_id}`, body))
  await using client = await enterTenant(world, place)
  await client.query('create table it (text text)')
  await client.query('create publication its for table it')
  await client.query(`select pg_create_logical_replication_slot('hung', 'pgoutput')`)
  const subscriber = await subscribe(world, place)
  await client.query(`insert into it select repeat(n::text, 1000) from generate_series(1, 20000) n`)
  const path = `/projects/${place.project_id}/endpoints/${place.endpoint_id}/suspend`
  await awaitEnds(world, await request(world, 'POST', path))
  subscriber.destroy()
  await removeTenant(world, place)
}

/** Starts to receive the changes of a slot, then never reads them. */
async function subscribe(world: World, { uri, endpoint_id }: Place): Promise<{ destroy(): void }> {
  const settings = {
    replication: 'database',
    options: `endpoint=${endpoint_id} -c wal_sender_timeout=0`,
  } as pg.ClientConfig
  const client = await connect(world.neap, uri, settings)
  client.on('error', () => {})
  const start = `START_REPLICATION SLOT hung LOGICAL 0/0 (proto_version '1', publication_names 'its')`
  client.query(start).catch(() => {})
  const { stream } = (client as unknown as { connection: { stream: { pause(): void; destroy(): void } } }).connection
  stream.pause()
  return stream
}

type TenantClient = pg.Client & AsyncDisposable

/** Connects to a tenant's endpoint. No fault but the tenant's own lasts meanwhile, so it is admitted. */
async function enterTenant(world: World, { uri }: Place): Promise<TenantClient> {
  const client = await connect(world.neap, uri, { lost: () => {} })
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end().catch(() => {}) })
}

const uriOf = ({ uri, endpoint_id }: Place, other: string): string => uri.replace(endpoint_id, other)

/** Requests branches all at once. A host whose disk is almost full refuses them. */
async function makeBranches(world: World, place: Place, count: number, endpoints: { type: 'read_write' }[] = []) {
  const body = { branch: { parent_id: place.branch_id }, endpoints }
  const answers = await Promise.all(
    Array.from({ length: count }, () => request(world, 'POST', `/projects/${place.project_id}/branches`, body)),
  )
  for (const answer of answers) {
    const wrong = answer.status !== 201 && !isShortOfDisk(world, answer)
    world.checks.record('answered', wrong && `a branch of a separate project was answered ${answer.status}`)
  }
  return answers.filter(({ status }) => status === 201)
}
