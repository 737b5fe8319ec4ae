import { lastOf, look, spotAfter } from './restore.ts'
import type { Act } from './requests.ts'
import { awaitEnds, pause, request, standing, wasDiskShort } from './world.ts'
import { write } from './writers.ts'

/** Deletes a branch and recovers it, at the latest two seconds later: all its acknowledged entries are there. */
export const undelete: Act = async ({ world, random, tasks }, name) => {
  const { checks } = world
  const leaves = standing(world).filter((spot) => spot.children === 0 && spot.parent && spot.inherited !== undefined)
  if (leaves.length < 2) return
  const spot = random.pick(leaves)
  spot.leaving = true
  const path = `/projects/${spot.project_id}/branches/${spot.branch_id}`
  const deleted = await request(world, 'DELETE', path)
  checks.record('answered', deleted.status !== 200 && `the deletion of ${spot.name} was answered ${deleted.status}`)
  if (random.chance(0.5)) await awaitEnds(world, deleted)
  await pause(random.between(0, 2_000))
  const recovered = await request(world, 'POST', `${path}/recover`)
  if (recovered.status !== 200) {
    if (spot.parent) spot.parent.children--
    const refusal = `${recovered.status}: ${recovered.body.message}`
    checks.record('answered', !wasDiskShort(world) && `the recovery of ${spot.name} was answered ${refusal}`)
    return
  }
  await Promise.all(spot.pooled)
  const again = spotAfter(spot, { inherited: spot.inherited })
  world.spots.push(again)
  const found = await look(world, again)
  const lost = found && spot.writers.find((writer) => lastOf(found, writer.name) < writer.acknowledged)
  checks.record('durable', lost && `${spot.name}, recovered, lacks acknowledged entries of ${lost.name}`)
  tasks.push(write(world, again, `writer_of_${name}`))
}
