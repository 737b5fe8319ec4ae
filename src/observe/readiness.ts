import type { Registry } from 'prom-client'
import { AppError } from '../errors.ts'
import { addGauge } from './gauge.ts'
import { within } from './within.ts'

/** Something that must hold for a process to be of use: the answer says what is missing, if anything is. */
export type Check = () => Promise<string | undefined> | string | undefined

/** What is missing, by the name of its check; nothing when all holds. */
export type Readiness = () => Promise<Readonly<Record<string, string>>>

/**
 * Asks all checks at once. None is waited for longer than `ms`, and one that has not answered is not asked again until it has, so
 * that many who ask do not queue up behind what is away. Anybody may read the answer: of an error it has the text that is for users, if any.
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
    return within(asked, ms, `no answer within ${ms} ms`)
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
