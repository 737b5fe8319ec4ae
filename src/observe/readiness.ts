import type { Registry } from 'prom-client'
import { AppError } from '../errors.ts'
import { withTimeout } from '../race.ts'
import { addGauge } from './gauge.ts'

/** A condition for a process to do its work: returns a message if it does not hold. */
export type Check = () => Promise<string | undefined> | string | undefined

/** The messages of the failed checks, by name; empty when all hold. */
export type Readiness = () => Promise<Readonly<Record<string, string>>>

/**
 * Runs all checks at once, and waits `ms` at most. A check that has not answered is not started again until it has, so
 * that callers do not queue up behind an unreachable service. The result is public: of an error it has only the message
 * for users, if any.
 */
export function createReadiness(registry: Registry, checks: Readonly<Record<string, Check>>, ms = 2_000): Readiness {
  const underWay = new Map<string, Promise<string | undefined>>()

  function look(name: string, check: Check): Promise<string | undefined> {
    let asked = underWay.get(name)
    if (!asked) {
      asked = (async () => check())()
        .catch((error: unknown) => (error instanceof AppError ? error.message : 'it cannot be asked'))
        .finally(() => underWay.delete(name))
      underWay.set(name, asked)
    }
    return withTimeout(asked, ms, `no answer within ${ms} ms`)
  }

  async function missing(): Promise<Record<string, string>> {
    const found = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => [name, await look(name, check)] as const),
    )
    return Object.fromEntries(found.filter((each): each is [string, string] => each[1] !== undefined))
  }

  const ready = { name: 'neap_ready', help: '1 while this process can do its work, as /readyz says, else 0.' }
  addGauge(registry, ready, async () => (Object.keys(await missing()).length === 0 ? 1 : 0))
  return missing
}
