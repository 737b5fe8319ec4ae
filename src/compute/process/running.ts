import { readdir, readlink, realpath } from 'node:fs/promises'
import { sep } from 'node:path'
import type { Layout } from '../../host/layout.ts'
import { storedIds } from '../../storage/remove.ts'

/**
 * The ids of the stores on which a server may run: those whose data directory is the working directory of a process;
 * all stores on systems other than Linux.
 */
export function busyStores(layout: Layout): Promise<string[]> {
  return process.platform === 'linux' ? workplaces(layout) : storedIds(layout)
}

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
