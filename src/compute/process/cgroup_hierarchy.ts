/**
 * Where the control groups of this machine are mounted (cgroups(7)): all controllers in one hierarchy of version 2, or
 * one hierarchy of version 1 for each, with one of version 2 beside them that has no controller but measures pressure.
 */
import { readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** What a group limits or counts. */
export type Controller = 'cpu' | 'cpuacct' | 'memory' | 'io' | 'pids' | 'pressure'

export interface Hierarchy {
  readonly version: 1 | 2
  readonly mountPoint: string
  /** The group, below the mount point, in which Neap makes its own. */
  readonly base: string
  readonly controllers: readonly Controller[]
}

/** Names that differ from the kernel's: version 1 calls io "blkio". */
const BY_KERNEL_NAME: Readonly<Record<string, Controller>> = {
  cpu: 'cpu',
  cpuacct: 'cpuacct',
  memory: 'memory',
  io: 'io',
  blkio: 'io',
  pids: 'pids',
}

export const readHierarchies = (): Hierarchy[] =>
  hierarchiesIn(readFileSync('/proc/self/mountinfo', 'utf8'), readFileSync('/proc/self/cgroup', 'utf8'), {
    baseOf,
    controllersOf(mountPoint, group) {
      try {
        return readFileSync(join(mountPoint, group, 'cgroup.controllers'), 'utf8')
      } catch {
        return ''
      }
    },
  })

/**
 * Root's groups are at the top, and an ordinary user's in the topmost group that was delegated to him: the same
 * wherever Neap is started from, since computes outlive it.
 */
function baseOf(mountPoint: string, own: string): string {
  const uid = process.getuid?.()
  if (uid === 0) return '/'
  let base = own
  while (base !== '/' && ownerOf(join(mountPoint, dirname(base))) === uid) base = dirname(base)
  return base
}

const ownerOf = (directory: string): number | undefined => statSync(directory, { throwIfNoEntry: false })?.uid

/**
 * @param mountinfo as in /proc/self/mountinfo
 * @param membership as in /proc/self/cgroup
 * @param read.baseOf the group in which to make others, by the group of this process
 * @param read.controllersOf the text of cgroup.controllers of a group of version 2
 */
export function hierarchiesIn(
  mountinfo: string,
  membership: string,
  read: {
    readonly baseOf: (mountPoint: string, own: string) => string
    readonly controllersOf: (mountPoint: string, group: string) => string
  },
): Hierarchy[] {
  const paths = new Map<string, string>()
  for (const [, names = '', path = ''] of membership.matchAll(/^\d+:([^:]*):(.*)$/gm))
    for (const name of names.split(',')) paths.set(name, path)
  const found: Hierarchy[] = []
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root = '/', mountPoint = ''] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    if (type === 'cgroup2') {
      const own = ownBelow(root, paths.get('') ?? '/')
      if (own === undefined) continue
      const base = read.baseOf(unescaped(mountPoint), own)
      const controllers = known(read.controllersOf(unescaped(mountPoint), base).split(/\s+/))
      found.push({ version: 2, mountPoint: unescaped(mountPoint), base, controllers: withCounts(controllers) })
    } else if (type === 'cgroup') {
      const names = options.split(',').filter((name) => paths.has(name))
      const own = ownBelow(root, paths.get(names[0] ?? '') ?? '/')
      const controllers = known(names)
      if (own === undefined || controllers.length === 0) continue
      const base = read.baseOf(unescaped(mountPoint), own)
      found.push({ version: 1, mountPoint: unescaped(mountPoint), base, controllers })
    }
  }
  return found
}

/** Version 2 counts CPU and pressure in every group, with or without controllers. */
const withCounts = (controllers: Controller[]): Controller[] =>
  controllers.length === 0 ? ['pressure'] : [...controllers, 'cpuacct', 'pressure']

const known = (names: string[]): Controller[] =>
  names.flatMap((name) => (name in BY_KERNEL_NAME ? [BY_KERNEL_NAME[name] as Controller] : []))

/** A group below a mount that shows only the groups below `root`; undefined when it is not among them. */
function ownBelow(root: string, path: string): string | undefined {
  if (path.startsWith('/..')) return undefined
  if (root === '/') return path
  if (path === root || path.startsWith(`${root}/`)) return path.slice(root.length) || '/'
  return undefined
}

/** Spaces and backslashes are octal in mountinfo (proc(5)). */
const unescaped = (path: string): string =>
  path.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 8)))
