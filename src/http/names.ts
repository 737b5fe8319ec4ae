import { lookup } from 'node:dns/promises'
import type { Config } from '../config.ts'
import { proxyHost } from '../public_address.ts'
import { withTimeout } from '../race.ts'

const FIRST_MS = 1_000
const AGAIN_MS = 60_000

/**
 * Checks whether the host names of endpoints resolve on this machine; only some resolvers know `*.localhost` (RFC
 * 6761). Waits one second at most for the first look-up; later ones run in the background, because a dead name server
 * would delay requests.
 * @param ask asks the resolver for a name; rejects when there is no such name
 * @returns the last result, false before the first; a call more than a minute after the last look-up starts another
 */
export async function watchNames(
  config: Config,
  ask: (name: string) => Promise<unknown> = lookup,
): Promise<() => boolean> {
  let resolves = false
  let asking = false
  let askedAt = 0

  async function look(): Promise<void> {
    asking = true
    askedAt = performance.now()
    resolves = await ask(`neap-name-check.${proxyHost(config)}`).then(
      () => true,
      () => false,
    )
    asking = false
  }

  await withTimeout(look(), FIRST_MS, undefined)
  return () => {
    if (!asking && performance.now() - askedAt > AGAIN_MS) void look()
    return resolves
  }
}
