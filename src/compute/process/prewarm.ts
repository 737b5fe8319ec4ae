import { rmSync, statSync } from 'node:fs'
import { uptime } from 'node:os'
import { join } from 'node:path'

/** Written by pg_prewarm when Postgres stops, and each five minutes (Postgres manual, "pg_prewarm"). */
const BLOCK_LIST = 'autoprewarm.blocks'

/**
 * Removes the list of blocks that the next start of a store would read ahead, where the page cache most likely still
 * has them: reading them would only take CPU from the first clients. It has not if the machine was restarted since the
 * last start, nor for the files of a clone that was never started.
 */
export function dropOldBlockList(home: string): void {
  const lastStart = statSync(join(home, 'server'), { throwIfNoEntry: false })?.mtimeMs
  if (lastStart === undefined || lastStart < Date.now() - uptime() * 1000) return
  // Its last part is never followed as a link, and the directory above belongs to Neap.
  rmSync(join(home, 'pgdata', BLOCK_LIST), { force: true })
}
