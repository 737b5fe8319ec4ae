/**
 * Walls around a compute (docs/decisions/0001-walls.md): which ones this machine supports, and the files that a compute
 * sees inside them. walls.pl sets them up.
 */
import { dirname } from 'node:path'
import { type Wall, WALLS } from '../../walls.ts'
import { askEffect } from '../../host/effect.ts'

/**
 * The resolver of a compute with egress: pasta forwards its queries to this machine's first resolver, even on its
 * loopback.
 */
export const RESOLVER = '192.0.0.3'

/** The walls that this machine supports; `user` is the user namespace that an ordinary user needs for most of them. */
export interface Walls {
  readonly has: ReadonlySet<Wall>
  /** In the form that walls.pl takes. */
  readonly argument: string
}

const isRoot = (): boolean => process.getuid?.() === 0

/**
 * Probes which walls this machine supports, by putting each around a process.
 * @param lacks walls to leave out
 * @param root the empty directory on which the root of a compute is mounted
 */
export async function probeWalls(root: string, lacks: readonly Wall[] = []): Promise<Walls> {
  const has = new Set<Wall>(isRoot() ? ['identity'] : [])
  if (process.platform !== 'linux') return { has, argument: `${process.arch}:` }
  const asked = [...(isRoot() ? [] : ['user']), 'files', 'processes', 'network', 'ipc', 'calls', 'limits'].filter(
    (name) => !lacks.some((lack) => lack === name),
  )
  const found = await askEffect(['probe', process.arch, root, ...asked])
  for (const name of found) if (name in WALLS) has.add(name as Wall)
  // Without a user namespace the kernel counts all processes of this user together.
  if (!isRoot() && !found.includes('user')) has.delete('limits')
  const raised = found.filter((name) => name === 'user' || has.has(name as Wall))
  return { has, argument: `${process.arch}:${raised.join(',')}` }
}

/** Directories of programs and libraries on all kinds of distributions; absent ones are left out. */
const PROGRAMS = ['/usr', '/lib', '/lib64', '/lib32', '/bin', '/sbin', '/nix/store', '/gnu/store']
/** The directory of all files of a server by that of its programs, as server_copy.ts lays them out. */
const programsRoot = (bin: string): string => dirname(bin).replace(/\/lib\/postgresql\/\d+$/, '')

/** Files that libraries read: for linking, time zones, names and authorities. */
const READ = ['ld.so.cache', 'localtime', 'alternatives', 'nsswitch.conf', 'hosts', 'ssl', 'pki']

/**
 * The files that a compute sees, in the form that walls.pl takes.
 * @param place.bin the directory of its Postgres programs
 * @param egress whether it has egress, with a resolver of its own
 */
export function mountsOf(
  place: { bin: string; conf: string; pgdata: string; sockets: string },
  egress: boolean,
): string {
  const programs = place.bin.startsWith('/usr/') ? PROGRAMS : [...PROGRAMS, programsRoot(place.bin)]
  return [
    ...programs.map((path) => `exec ${path}`),
    ...[...READ.map((name) => `/etc/${name}`), place.conf].map((path) => `read ${path}`),
    egress ? `resolver ${RESOLVER}` : 'read /etc/resolv.conf',
    ...[place.pgdata, place.sockets].map((path) => `write ${path}`),
  ].join('\n')
}
