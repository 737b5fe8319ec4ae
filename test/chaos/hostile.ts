import { type AttackName, startHostile } from '../hostile_tenant.ts'
import type { Random } from '../random.ts'
import { newTenant, removeTenant } from './tenant.ts'
import { pause, type World } from './world.ts'

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
  const place = await newTenant(world, 'hostile')
  // Disruptions of the tenant's own compute are excused.
  const ended = world.history.disrupt(HOSTILE_TENANT, ['sessions', 'connects'], place.branch_id)
  const tenant = startHostile({ neap: world.neap, place, key: world.key })
  tenant.begin(ATTACKS)
  await pause(random.between(2_000, 5_000))
  await tenant.stop()
  await removeTenant(world, place)
  ended()
}
