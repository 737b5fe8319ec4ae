import { catalogQuery } from '../admin.ts'
import { enter, holdings } from './data.ts'
import type { Act } from './requests.ts'
import { awaitEnds, isShortOfDisk, pause, request, type Spot, standing, type World } from './world.ts'

/**
 * Restores a branch to its parent's data and preserves its own under another name: the preserved copy must have all
 * acknowledged entries, and the restored branch must have lost them.
 */
export const restore: Act = async ({ world, random }, name) => {
  const { checks } = world
  const leaves = standing(world).filter((spot) => spot.children === 0 && spot.parent && spot.inherited !== undefined)
  if (leaves.length < 2) return
  const spot = random.pick(leaves)
  const { parent, project_id, branch_id } = spot
  if (!parent) return
  // Stop its writers: the contents of the branch are replaced.
  spot.leaving = true
  // A pooled writer would not notice the restore and would continue.
  await Promise.all(spot.pooled)
  const told = parent.writers.map((writer) => ({ writer, acknowledged: writer.acknowledged }))
  const asked = { source_branch_id: parent.branch_id, preserve_under_name: name }
  const answer = await request(world, 'POST', `/projects/${project_id}/branches/${branch_id}/restore`, asked)
  const isExcused = answer.status === 200 || isShortOfDisk(world, answer)
  checks.record('answered', !isExcused && `a restore of ${spot.name} was answered ${answer.status}`)
  await awaitEnds(world, answer)
  const stores = await storesOf(world, branch_id, name)
  if (!stores) return
  // Without a preserved copy the restore failed, possibly for lack of space, and had no effect.
  const again = spotAfter(spot, { store: stores.own, ...(!stores.kept && { inherited: spot.inherited }) })
  world.spots.push(again)
  if (!stores.kept) return
  parent.children++
  const restored = await look(world, again)
  if (restored) {
    again.inherited = restored.inherited
    const short = told.find(({ writer, acknowledged }) => lastOf(restored, writer.name) < acknowledged)
    checks.record('isolated', short && `${spot.name}, restored, does not have what ${short.writer.name} had written`)
    const own = restored.branches.includes(branch_id)
    checks.record('isolated', own && `${spot.name}, restored, still has what was written to it before`)
  }
  const kept = await keep(world, spot, name, stores.kept)
  const found = kept && (await look(world, kept))
  if (!found) return
  kept.inherited = found.inherited
  const lost = spot.writers.find((writer) => lastOf(found, writer.name) < writer.acknowledged)
  checks.record('durable', lost && `${name}, the backup of ${spot.name}, lacks acknowledged entries of ${lost.name}`)
}

/** The preserved branch, with an endpoint. */
async function keep(world: World, spot: Spot, name: string, { id, store }: Stored): Promise<Spot | undefined> {
  const { project_id } = spot
  const body = { endpoint: { branch_id: id, type: 'read_write' } }
  const answer = await request(world, 'POST', `/projects/${project_id}/endpoints`, body)
  const refusal = answer.status !== 201 && `${answer.status}: ${answer.body.message}`
  world.checks.record('answered', refusal && `an endpoint of ${name} was answered ${refusal}`)
  if (refusal) return undefined
  const endpoint_id = (answer.body['endpoint'] as { id: string }).id
  const uri = spot.uri.replace(spot.endpoint_id, endpoint_id)
  const kept = spotAfter(spot, { name, branch_id: id, endpoint_id, uri, store, before: spot })
  world.spots.push(kept)
  return kept
}

/**
 * The state of a branch after a restore. Its inherited entries are unknown until they are read: those of `spot`
 * are of other data, and a run that ends before the read would judge the branch by them.
 */
export const spotAfter = (spot: Spot, changes: Partial<Spot>): Spot => ({
  ...spot,
  inherited: undefined,
  ...changes,
  leaving: false,
  writers: [],
  pooled: new Set(),
})

/** Reads a branch through its endpoint; undefined when the run ends before. */
export async function look(world: World, spot: Spot) {
  const client = await enter(world, spot, () => {})
  const found = client && (await holdings(client, spot.branch_id).catch(() => undefined))
  await client?.end().catch(() => {})
  return found
}

/** The last entry of a writer. */
export const lastOf = ({ sequences }: Awaited<ReturnType<typeof holdings>>, name: string): number =>
  sequences.find(({ writer }) => writer === name)?.last ?? 0

interface Stored {
  readonly id: string
  readonly store: string
}

/** The stores of a branch and of its preserved copy. Returns undefined when the run ends before the catalog answers. */
async function storesOf(world: World, id: string, name: string): Promise<{ own: string; kept?: Stored } | undefined> {
  while (!world.stopping.aborted) {
    const rows = await catalogQuery<Stored>(
      world.neap,
      `select id, store_id as store from branch
        where id = $1 or (name = $2 and restores is null and deleted_at is null)`,
      [id, name],
    ).catch(() => [])
    const own = rows.find((row) => row.id === id)
    const kept = rows.find((row) => row.id !== id)
    if (own) return { own: own.store, ...(kept && { kept }) }
    await pause(100)
  }
  return undefined
}
