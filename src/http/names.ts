import { lookup } from 'node:dns/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { proxyHost } from '../public_address.ts'

const FIRST_MS = 1_000
const AGAIN_MS = 60_000

/**
 * Finds out whether the names that endpoints get resolve on this machine; some resolvers know `*.localhost` (RFC 6761), some do not.
 * Asked once, for a second at most, and then in the background: a dead name server takes its time, which no request waits for.
 * @param ask asks the resolver for a name; rejects where there is none
 * @returns what is known, false until something is; has it looked up again when that was a minute ago
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

  await Promise.race([look(), sleep(FIRST_MS, undefined, { ref: false })])
  return () => {
    if (!asking && performance.now() - askedAt > AGAIN_MS) void look()
    return resolves
  }
}
