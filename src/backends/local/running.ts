import { readdir, readlink, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Layout } from './layout.ts'
import { storedBranches } from './remove.ts'
import { findServer } from './server.ts'

/** The ids of the branches on which a server runs. Every process of one works in its data directory; the lock has the last word. */
export async function runningBranches(layout: Layout): Promise<string[]> {
  const suspects = process.platform === 'linux' ? await workplaces(layout) : await storedBranches(layout)
  const running = await Promise.all(
    suspects.map(async (id) => ((await findServer(join(layout.branches, id))) ? [id] : [])),
  )
  return running.flat()
}

/** The branches in whose data directories processes work. */
async function workplaces({ branches }: Layout): Promise<string[]> {
  const top = await realpath(branches).catch(() => undefined)
  if (top === undefined) return []
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const places = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => '')))
  const ids = places
    .filter((place) => place.startsWith(top + sep))
    .map((place) => place.slice(top.length + 1).split(sep))
  return [...new Set(ids.filter(([, directory]) => directory === 'pgdata').map(([id]) => id ?? ''))].sort()
}
