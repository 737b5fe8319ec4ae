import type { Catalog } from '../catalog/catalog.ts'
import { sql } from '../catalog/sql.ts'

/** A wall clock is stepped by less; a laptop sleeps for longer. */
const MIN_SLEEP_MS = 5_000

/**
 * Returns a function to await before operations are looked at: after a sleep of this machine it extends the deadlines
 * of the operations that had begun, since they could not go on meanwhile.
 * @param running the ids of operations whose steps may hold their rows locked: each is extended when its step has ended
 */
export function createOversleep(
  catalog: Catalog,
  host: string,
  sleptMs: () => number,
  running: () => readonly string[],
  onError: (error: unknown) => void,
): () => Promise<void> {
  let extending = Promise.resolve()
  return () => {
    const ms = sleptMs()
    if (ms < MIN_SLEEP_MS) return extending
    for (const id of running()) extendRunning(id, ms).catch(onError)
    extending = extendOthers(ms).catch(onError)
    return extending
  }

  async function extendRunning(id: string, ms: number): Promise<void> {
    await catalog.rows(sql`
      update operation set deadline_at = deadline_at + make_interval(secs => ${ms / 1000})
       where id = ${id} and finished_at is null`)
  }

  async function extendOthers(ms: number): Promise<void> {
    await catalog.rows(sql`
      update operation set deadline_at = deadline_at + make_interval(secs => ${ms / 1000})
       where id in (
         select id from operation
          where finished_at is null and deadline_at is not null and (host_id is null or host_id = ${host})
            and id <> all (${running()}::uuid[]) for no key update skip locked)`)
  }
}
