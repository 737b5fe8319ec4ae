import { readdir, readlink, realpath } from 'node:fs/promises'
import { sep } from 'node:path'
import type { Layout } from '../../host/layout.ts'
import { storedIds } from '../../storage/remove.ts'

/**
 * The ids of the stores on which a server may run: those whose data directory is the working directory of a Postgres;
 * all stores on systems other than Linux.
 */
export function busyStores(layout: Layout): Promise<string[]> {
  return process.platform === 'linux' ? workplaces(layout) : storedIds(layout)
}

async function workplaces({ branches }: Layout): Promise<string[]> {
  const top = await realpath(branches).catch(() => undefined)
  if (top === undefined) return []
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const ids = await Promise.all(pids.map((pid) => storeOf(pid, top)))
  return [...new Set(ids.filter((id) => id !== undefined))].sort()
}

/** The store that a process serves. Those that clone or measure a store work in its directories as well. */
async function storeOf(pid: string, top: string): Promise<string | undefined> {
  const place = await readlink(`/proc/${pid}/cwd`).catch(() => '')
  if (!place.startsWith(top + sep)) return undefined
  const [id, directory] = place.slice(top.length + 1).split(sep)
  if (directory !== 'pgdata') return undefined
  const program = await readlink(`/proc/${pid}/exe`).catch(() => '')
  return /\/postgres( \(deleted\))?$/.test(program) ? id : undefined
}
