import { type AttackName, startHostile } from '../hostile_tenant.ts'
import type { Random } from '../random.ts'
import { awaitEnds, pause, request, type World } from './world.ts'

export const HOSTILE_TENANT = 'a hostile tenant'

/** Attacks without the API key: the tenant uses the key of the run, and would exhaust its limits. */
const ATTACKS: readonly AttackName[] = [
  'forks',
  'fills',
  'kills',
  'links',
  'ports',
  'sessions',
  'connects',
  'guesses',
  'derivations',
  'idle /sql',
  'load',
]

/**
 * A tenant attacks from a separate project with SQL, connections and code in its compute at once: no other branch is
 * disturbed.
 */
export async function hostileTenant(world: World, random: Random): Promise<void> {
  const made = await request(world, 'POST', '/projects', { project: { name: 'hostile' } })
  await awaitEnds(world, made)
  const { project, branch, endpoints, connection_uris } = made.body as unknown as {
    project: { id: string }
    branch: { id: string }
    endpoints: { id: string }[]
    connection_uris: { connection_uri: string }[]
  }
  const uri = connection_uris[0]?.connection_uri ?? ''
  const place = { project_id: project.id, branch_id: branch.id, endpoint_id: endpoints[0]?.id ?? '', uri }
  // Disruptions of the tenant's own compute are excused.
  const ended = world.history.disrupt(HOSTILE_TENANT, ['sessions', 'connects'], place.branch_id)
  const tenant = startHostile({ neap: world.neap, place, key: world.key })
  tenant.begin(ATTACKS)
  await pause(random.between(2_000, 5_000))
  await tenant.stop()
  await awaitEnds(world, await request(world, 'DELETE', `/projects/${project.id}`))
  ended()
}
