import { type Answer, send } from '../http.ts'
import { type Random, randomOf } from '../random.ts'
import { enter, holdings } from './data.ts'
import { restore } from './restore.ts'
import { snapshot } from './snapshot.ts'
import { undelete } from './undelete.ts'
import { awaitEnds, isShortOfDisk, pause, request, type Spot, standing, type World } from './world.ts'
import { write } from './writers.ts'

const MAX_SPOTS = 7
const MAX_WRITERS = 8

/** Sends random requests to the API, one after the other, until the run ends. */
export async function ask(world: World, name: string, tasks: Promise<unknown>[]): Promise<void> {
  const random = randomOf(world.seed, name)
  for (let number = 1; !world.stopping.aborted; number++) {
    const act = random.pick([
      branchOff,
      branchOff,
      remove,
      suspend,
      suspend,
      restart,
      roles,
      databases,
      restore,
      snapshot,
      undelete,
      refuse,
      project,
    ])
    await act({ world, random, tasks }, `${name}_${number}`)
    await pause(random.between(0, 800))
  }
}

interface Asker {
  readonly world: World
  readonly random: Random
  /** Concurrent tasks; a writer to a new branch is added. */
  readonly tasks: Promise<unknown>[]
}

/** Makes one request, with a unique name, and checks its result. */
export type Act = (asker: Asker, name: string) => Promise<void>

/**
 * Creates a branch of a random branch, possibly of a moment ago and with a duplicate request, checks its data and adds
 * a writer.
 */
const branchOff: Act = async (asker, name) => {
  const { world, random, tasks } = asker
  const { checks } = world
  const parents = standing(world)
  if (parents.length >= MAX_SPOTS) return remove(asker, name)
  const parent = random.pick(parents)
  const told = parent.writers.map((writer) => ({ writer, acknowledged: writer.acknowledged }))
  const moment = random.chance(0.4) ? await momentOf(parent) : undefined
  parent.children++
  const path = `/projects/${parent.project_id}/branches`
  const body = { branch: { name, parent_id: parent.branch_id, ...moment?.asked }, endpoints: [{ type: 'read_write' }] }
  const answer = await twice(asker, path, body)
  const made = answer.body as unknown as { branch: { id: string }; endpoints: { id: string }[] }
  if (answer.status !== 201) {
    parent.children--
    // Its parent may have been deleted since it was chosen.
    const isTooEarly = moment && /before the history/.test(String(answer.body.message))
    const isExcused = [parent.leaving, isTooEarly, isShortOfDisk(world, answer)].includes(true)
    checks.record('answered', !isExcused && `a branch of ${parent.name} was answered ${answer.status}`)
    return
  }
  const endpoint_id = made.endpoints[0]?.id ?? ''
  const spot: Spot = {
    name,
    store: made.branch.id,
    project_id: parent.project_id,
    branch_id: made.branch.id,
    endpoint_id,
    uri: parent.uri.replace(parent.endpoint_id, endpoint_id),
    leaving: false,
    writers: [],
    pooled: new Set(),
    parent,
    children: 0,
  }
  // Deletes it while it is being created, or while its compute starts.
  if (random.chance(0.15)) return deleteBranch(asker, spot)
  // Complete before this line, because other tasks use it from here on.
  world.spots.push(spot)
  await awaitEnds(world, answer)
  const client = await enter(world, spot, () => {})
  if (!client) return
  const found = await holdings(client, spot.branch_id).catch(() => undefined)
  await client.end().catch(() => {})
  if (found) {
    spot.inherited = found.inherited
    const short = told.find(({ writer, acknowledged }) => {
      const last = found.sequences.find((sequence) => sequence.writer === writer.name)?.last ?? 0
      return last < acknowledged || last > (moment?.attempted.get(writer) ?? writer.attempted)
    })
    checks.record('isolated', short && `${name} does not have what ${short.writer.name} had written to ${parent.name}`)
  }
  const writers = standing(world).reduce((sum, each) => sum + each.writers.length, 0)
  if (writers < MAX_WRITERS) tasks.push(write(world, spot, `writer_of_${name}`))
}

/** A moment of a branch that is over, and the last entries that its writers can have committed until then. */
async function momentOf(parent: Spot) {
  // A Date counts milliseconds: entries of this one may be acknowledged already.
  const parent_timestamp = new Date(Date.now() + 1).toISOString()
  await pause(5)
  return { asked: { parent_timestamp }, attempted: new Map(parent.writers.map((each) => [each, each.attempted])) }
}

/** Sends a request once, or twice concurrently with the same idempotency key: one effect, one reply. */
async function twice(
  { world, random }: Asker,
  path: string,
  body: { branch: { name: string; parent_id: string } },
): Promise<Answer> {
  const again = random.chance(0.4)
  const key = `${body.branch.name}-${random.between(0, 2 ** 31)}`
  const once = () => request(world, 'POST', path, body, key)
  const [first, second] = await Promise.all([once(), ...(again ? [once()] : [])])
  if (!first) throw new Error('there is no answer')
  if (second) sameReply(world, body.branch.name, first, second)
  return first
}

export function sameReply({ checks }: World, name: string, first: Answer, second: Answer): void {
  const same = JSON.stringify(first.body) === JSON.stringify(second.body)
  checks.record('once', !same && `two requests for ${name} with one key had different replies`)
}

const remove: Act = async (asker) => {
  const { world, random } = asker
  const leaves = standing(world).filter((spot) => spot.children === 0 && spot.inherited !== undefined)
  if (leaves.length < 2) return
  await deleteBranch(asker, random.pick(leaves))
}

async function deleteBranch({ world, random }: Asker, spot: Spot): Promise<void> {
  spot.leaving = true
  const path = `/projects/${spot.project_id}/branches/${spot.branch_id}`
  const answer = await request(world, 'DELETE', `${path}?hard_delete=${random.chance(0.5)}`)
  world.checks.record('answered', answer.status !== 200 && `the deletion of ${spot.name} was answered ${answer.status}`)
  if (spot.parent) spot.parent.children--
  if (random.chance(0.5)) await awaitEnds(world, answer)
}

/** Ends the sessions of a branch, as requested; new connections wait. */
const suspend: Act = (asker) => move(asker, 'suspend')
const restart: Act = (asker) => move(asker, 'restart')

async function move({ world, random }: Asker, verb: 'suspend' | 'restart'): Promise<void> {
  const spot = random.pick(standing(world))
  const over = world.history.disrupt(`${verb} of ${spot.name}`, ['sessions'], spot.branch_id)
  const answer = await request(world, 'POST', `/projects/${spot.project_id}/endpoints/${spot.endpoint_id}/${verb}`)
  await awaitEnds(world, answer)
  over()
}

const roles: Act = async ({ world, random }, name) => {
  const spot = random.pick(standing(world))
  const path = `/projects/${spot.project_id}/branches/${spot.branch_id}/roles`
  const answer = await request(world, 'POST', path, { role: { name } })
  if (answer.status === 201 && random.chance(0.7)) await request(world, 'DELETE', `${path}/${name}`)
}

const databases: Act = async ({ world, random }, name) => {
  const spot = random.pick(standing(world))
  const path = `/projects/${spot.project_id}/branches/${spot.branch_id}/databases`
  const answer = await request(world, 'POST', path, { database: { name, owner_name: new URL(spot.uri).username } })
  if (answer.status === 201 && random.chance(0.7)) await request(world, 'DELETE', `${path}/${name}`)
}

/** Forbidden requests are refused. */
const refuse: Act = async ({ world }) => {
  const [first] = world.spots
  if (!first) return
  const answer = await request(world, 'DELETE', `/projects/${first.project_id}/branches/${first.branch_id}`)
  world.checks.record('answered', answer.status !== 422 && `the deletion of a parent was answered ${answer.status}`)
}

/** Creates a separate project, and deletes it immediately or when its operations have ended. */
const project: Act = async ({ world, random }, name) => {
  const made = await request(world, 'POST', '/projects', { project: { name } })
  if (random.chance(0.5)) await awaitEnds(world, made)
  const { id } = made.body['project'] as { id: string }
  await request(world, 'DELETE', `/projects/${id}`)
}

/** Deletes all projects except the first. */
export async function removeProjects(world: World, kept: string): Promise<void> {
  const listed = await send(world.neap, 'GET', '/projects?limit=400', { key: world.key })
  for (const { id } of listed.body['projects'] as { id: string }[])
    if (id !== kept) await request(world, 'DELETE', `/projects/${id}`)
}
