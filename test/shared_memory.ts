import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Shared memory owned by uids that this data directory assigns to branches, except the catalog's (its first) and that
 * of one branch. Returns [] when all processes run as one user.
 * @param kept the number of that branch
 */
export function sharedMemoryOfOthers(dataDir: string, kept: number): string[] {
  if (process.getuid?.() !== 0) return []
  const { uid: base } = statSync(join(dataDir, 'catalog', 'pgdata'))
  const isOthers = (uid = 0) => uid > base && uid < base + 2 ** 18 && uid !== base + kept
  // Other servers on the machine create and remove shared memory meanwhile.
  const owner = (name: string) => statSync(join('/dev/shm', name), { throwIfNoEntry: false })?.uid
  const posix = readdirSync('/dev/shm').filter((name) => isOthers(owner(name)))
  const lines = readFileSync('/proc/sysvipc/shm', 'utf8').trim().split('\n').slice(1)
  return [...posix, ...lines.filter((line) => isOthers(Number(line.trim().split(/\s+/)[7])))]
}
