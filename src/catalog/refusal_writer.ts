import type { Catalog } from './catalog.ts'
import { addRefusals, type Refusals } from './refused_access.ts'

const EVERY_MS = 1_000
/** Maximum number of distinct refusals until the next write; further ones are counted by kind alone. */
const MAX_DIFFERENT = 200

/**
 * Counts refusals in memory and adds them to the catalog once a second: a flood costs the catalog one statement of
 * bounded size.
 */
export interface RefusalWriter {
  note(refused: Pick<Refusals, 'kind' | 'accountId' | 'subject' | 'role' | 'network'>): void
  /** Writes the remaining counts. */
  stop(): Promise<void>
}

/** @param onError called when a write fails; its counts are written later */
export function startRefusalWriter(catalog: Catalog, onError: (error: unknown) => void): RefusalWriter {
  let waiting = new Map<string, Refusals>()
  let writing: Promise<void> | undefined

  function add(refused: Refusals): void {
    const { kind, accountId, subject, role, network } = refused
    const name = JSON.stringify([kind, accountId, subject, role, network])
    const before = waiting.get(name)
    if (before === undefined && waiting.size >= MAX_DIFFERENT && (subject || role || network || accountId))
      return add({ ...refused, accountId: undefined, subject: '', role: '', network: '' })
    const count = (before?.count ?? 0) + refused.count
    waiting.set(name, { ...refused, firstAt: before?.firstAt ?? refused.firstAt, count })
  }

  async function write(): Promise<void> {
    if (waiting.size === 0) return
    const taken = waiting
    waiting = new Map()
    try {
      await addRefusals(catalog, [...taken.values()])
    } catch (error) {
      const since = waiting
      waiting = taken
      for (const refused of since.values()) add(refused)
      onError(error)
    }
  }

  const flush = (): Promise<void> => {
    writing ??= write().finally(() => (writing = undefined))
    return writing
  }
  const timer = setInterval(() => void flush(), EVERY_MS).unref()

  return {
    note(refused) {
      const now = new Date().toISOString()
      const [subject, role] = [storable(refused.subject), storable(refused.role)]
      add({ ...refused, subject, role, count: 1, firstAt: now, lastAt: now })
    },
    async stop() {
      clearInterval(timer)
      await writing
      await flush()
    },
  }
}

/** A client-supplied name in a form that Postgres can store: an invalid one would make the whole write fail. */
const storable = (name: string): string => name.slice(0, 64).replaceAll('\0', '').toWellFormed()
