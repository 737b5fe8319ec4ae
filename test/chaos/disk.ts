import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { newDataDir } from '../neap.ts'

const SIZE = '3g'

/** A data directory on a filesystem of its own, which may be filled without harm to others, where mounting one is allowed. */
export function makeDataDir(): { dataDir: string; ownDisk: boolean; release: () => void } {
  const dir = newDataDir()
  chmodSync(dir, 0o711)
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=0711`, 'neap-chaos', dir]).status === 0
  const dataDir = join(dir, 'data')
  mkdirSync(dataDir, { mode: 0o711 })
  return {
    dataDir,
    ownDisk: mounted,
    release() {
      if (mounted) spawnSync('umount', ['-l', dir])
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
