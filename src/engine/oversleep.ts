import type { Catalog } from '../catalog/catalog.ts'
import { IS_UNFINISHED } from '../catalog/operation.ts'
import { sql } from '../catalog/sql.ts'

/** A wall clock is stepped by less; a laptop sleeps for longer. */
const MIN_SLEEP_MS = 5_000

/**
 * Returns a function to await before operations are looked at: after a sleep of this machine it extends the deadlines
 * of the operations that had begun, since they could not go on meanwhile. Before a step of an operation, give its id:
 * the extension waits for the step before it, and would be too late otherwise.
 * @param running the ids of operations whose steps may hold their rows locked: each is extended when its step has ended
 */
export function createOversleep(
  catalog: Catalog,
  host: string,
  sleptMs: () => number,
  running: () => readonly string[],
  onError: (error: unknown) => void,
): (id?: string) => Promise<void> {
  let others = Promise.resolve()
  const own = new Map<string, Promise<void>>()
  return async (id) => {
    const ms = sleptMs()
    if (ms >= MIN_SLEEP_MS) {
      for (const each of running()) {
        const extension: Promise<void> = extendRunning(each, ms)
          .catch(onError)
          .finally(() => {
            // A later sleep may have begun another.
            if (own.get(each) === extension) own.delete(each)
          })
        own.set(each, extension)
      }
      others = extendOthers(ms).catch(onError)
    }
    await others
    if (id !== undefined) await own.get(id)
  }

  async function extendRunning(id: string, ms: number): Promise<void> {
    await catalog.rows(sql`
      update operation set deadline_at = deadline_at + make_interval(secs => ${ms / 1000})
       where id = ${id} and ${IS_UNFINISHED}`)
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
