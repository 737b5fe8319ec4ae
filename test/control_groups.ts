import { existsSync, readdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { groupParents } from '../src/compute/process/cgroup.ts'
import { until } from './processes.ts'

/** Removes the control groups of a data directory whose computes have ended. Errors: a process is in one. */
export async function removeGroups(dataDir: string): Promise<void> {
  for (const parent of new Set(groupParents(dataDir).values()))
    if (existsSync(parent)) await until(`${parent} is without processes`, () => isRemoved(parent))
}

/** A group is in use for a moment after the end of its last process. */
function isRemoved(parent: string): boolean {
  try {
    for (const entry of readdirSync(parent, { withFileTypes: true }))
      if (entry.isDirectory()) rmdirSync(join(parent, entry.name))
    rmdirSync(parent)
    return true
  } catch {
    return !existsSync(parent)
  }
}
