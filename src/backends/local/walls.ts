/**
 * Walls around a compute (docs/decisions/0001-walls.md). What each one keeps apart, whether this machine has it, and what a compute sees
 * behind them. walls.pl puts them up.
 */
import { dirname } from 'node:path'
import { type Wall, WALLS } from '../../walls.ts'
import { askEffect } from './effect.ts'

/**
 * Where a compute with a way out asks for names: pasta passes that on to the first resolver of this machine, one on its
 * loopback too.
 */
export const RESOLVER = '192.0.0.3'

/** The walls that this machine has; `user` is the namespace of users that an ordinary user needs for most of them. */
export interface Walls {
  readonly has: ReadonlySet<Wall>
  /** As walls.pl takes them. */
  readonly argument: string
}

const isRoot = (): boolean => process.getuid?.() === 0

/**
 * Finds out which walls can be put up on this machine, by putting each up around a process.
 * @param lacks walls that are left out
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
  // Without a namespace of users the kernel counts all processes of this user together.
  if (!isRoot() && !found.includes('user')) has.delete('limits')
  const raised = found.filter((name) => name === 'user' || has.has(name as Wall))
  return { has, argument: `${process.arch}:${raised.join(',')}` }
}

/** Where programs and libraries are, on distributions of every kind; what is not there is left out. */
const PROGRAMS = ['/usr', '/lib', '/lib64', '/lib32', '/bin', '/sbin', '/nix/store', '/gnu/store']
/** What libraries read: of linking, time zones, names and authorities. */
const READ = ['ld.so.cache', 'localtime', 'alternatives', 'nsswitch.conf', 'hosts', 'ssl', 'pki']

/**
 * What exists for a compute, as walls.pl takes it.
 * @param place.bin the directory of its Postgres' programs
 * @param egress whether it has a way out, with a resolver of its own
 */
export function mountsOf(
  place: { bin: string; conf: string; pgdata: string; sockets: string },
  egress: boolean,
): string {
  const programs = place.bin.startsWith('/usr/') ? PROGRAMS : [...PROGRAMS, dirname(place.bin)]
  return [
    ...programs.map((path) => `exec ${path}`),
    ...[...READ.map((name) => `/etc/${name}`), place.conf].map((path) => `read ${path}`),
    egress ? `resolver ${RESOLVER}` : 'read /etc/resolv.conf',
    ...[place.pgdata, place.sockets].map((path) => `write ${path}`),
  ].join('\n')
}
