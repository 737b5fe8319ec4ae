import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, fstatSync, ftruncateSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** A small filesystem of its own, mounted for a test. Root only. */
export interface SmallDisk {
  /** Leaves no byte free, or only so many mebibytes, until `drain`. */
  fill(left?: number): void
  /** Leaves no inode free, until `drain`. */
  useInodes(): void
  drain(): void
  readOnly(yes: boolean): void
  unmount(): void
}

/** For the `skip` of a test: why nothing can be mounted here. */
export function withoutMounts(): string | false {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root on Linux mounts a small disk'
  // In a namespace of its own, so that nothing stays of it.
  const tried = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt'], { encoding: 'utf8' })
  return tried.status !== 0 && `this machine lets nothing be mounted: ${tried.stderr}`
}

/** Mounts one on a directory, which is made, open to pass through as a data directory is. */
export function mountSmallDisk(directory: string, mebibytes: number): SmallDisk {
  mkdirSync(directory, { recursive: true })
  const options = (more: string) => ['-o', `size=${mebibytes}m,mode=711${more}`]
  execFileSync('mount', ['-t', 'tmpfs', ...options(''), 'neap-test', directory])
  const remount = (more: string) => execFileSync('mount', ['-o', `remount,size=${mebibytes}m${more}`, directory])
  const filler = join(directory, 'filler')
  const { files } = statfsSync(directory)

  return {
    fill(left = 0) {
      const file = openSync(filler, 'a')
      try {
        for (const size of [2 ** 20, 4096]) writeUntilFull(file, Buffer.alloc(size, 1))
        ftruncateSync(file, fstatSync(file).size - left * 2 ** 20)
      } finally {
        closeSync(file)
      }
    },
    useInodes() {
      const now = statfsSync(directory)
      remount(`,nr_inodes=${now.files - now.ffree}`)
    },
    drain() {
      rmSync(filler, { force: true })
      remount(`,nr_inodes=${files}`)
    },
    readOnly: (yes) => void remount(yes ? ',ro' : ',rw'),
    unmount: () => void execFileSync('umount', [directory]),
  }
}

function writeUntilFull(file: number, bytes: Buffer): void {
  try {
    for (;;) writeSync(file, bytes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}
