import { lastOf, look, spotAfter } from './restore.ts'
import type { Act } from './requests.ts'
import { awaitEnds, request, type Spot, standing, wasDiskShort, type World } from './world.ts'

/**
 * Takes a snapshot of a branch, makes a branch of it, and removes both: it has what was acknowledged before the
 * request, and no entry that was attempted after the snapshot was taken.
 */
export const snapshot: Act = async ({ world, random }, name) => {
  const { checks } = world
  const spot = random.pick(standing(world))
  const { project_id } = spot
  const told = spot.writers.map((writer) => ({ writer, acknowledged: writer.acknowledged }))
  const asked = await request(world, 'POST', `/projects/${project_id}/branches/${spot.branch_id}/snapshot?name=${name}`)
  const isExcused = () => spot.leaving || world.stopping.aborted || wasDiskShort(world)
  if (asked.status >= 300) {
    checks.record('answered', !isExcused() && `a snapshot of ${spot.name} was answered ${asked.status}`)
    return
  }
  await awaitEnds(world, asked)
  // A restore that was asked for meanwhile may have come first: then it is one of other data.
  const isReplaced = spot.leaving
  const attempted = new Map(spot.writers.map((writer) => [writer, writer.attempted]))
  const { id } = asked.body['snapshot'] as { id: string }
  const made = await branchOf(world, spot, id, name)
  checks.record('answered', !made && !isExcused() && `no branch could be made of the snapshot ${name}`)
  const found = made && (await look(world, made))
  if (found && !isReplaced) {
    const wrong = told.find(({ writer, acknowledged }) => {
      const last = lastOf(found, writer.name)
      return last < acknowledged || last > (attempted.get(writer) ?? writer.attempted)
    })
    checks.record('durable', wrong && `the snapshot ${name} of ${spot.name} is wrong about ${wrong.writer.name}`)
  }
  if (made) await request(world, 'DELETE', `/projects/${project_id}/branches/${made.branch_id}?hard_delete=true`)
  const gone = await request(world, 'DELETE', `/projects/${project_id}/snapshots/${id}`)
  checks.record('answered', gone.status >= 300 && gone.status !== 404 && `its removal was answered ${gone.status}`)
}

/** A branch with an endpoint, made of a snapshot; undefined when that was refused. */
async function branchOf(world: World, spot: Spot, snapshotId: string, name: string): Promise<Spot | undefined> {
  const { project_id } = spot
  const body = { name: `${name}_look` }
  const restored = await request(world, 'POST', `/projects/${project_id}/snapshots/${snapshotId}/restore`, body)
  if (restored.status >= 300) return undefined
  const branch_id = (restored.body['branch'] as { id: string }).id
  await awaitEnds(world, restored)
  const asked = { endpoint: { branch_id, type: 'read_write' } }
  const made = await request(world, 'POST', `/projects/${project_id}/endpoints`, asked)
  if (made.status >= 300) return undefined
  const endpoint_id = (made.body['endpoint'] as { id: string }).id
  const uri = spot.uri.replace(spot.endpoint_id, endpoint_id)
  return spotAfter(spot, { name: body.name, branch_id, endpoint_id, uri, store: branch_id, parent: spot, children: 0 })
}
