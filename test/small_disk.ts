import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'

/** A small separate filesystem, mounted for a test. Root only. */
export interface SmallDisk {
  /** Fills the disk until `drain`, except for `left` mebibytes. */
  fill(left?: number): void
  /** Uses all inodes, until `drain`. */
  useInodes(): void
  drain(): void
  readOnly(yes: boolean): void
  unmount(): void
}

/** For the `skip` of a test: why filesystems cannot be mounted here. Returns false when they can. */
export function withoutMounts(): string | false {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root on Linux mounts a small disk'
  // In a separate mount namespace, so that the mount does not remain.
  const tried = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt'], { encoding: 'utf8' })
  return tried.status !== 0 && `this machine lets nothing be mounted: ${tried.stderr}`
}

/**
 * Creates a directory and mounts a small disk on it, with the mode of a data directory: other users may pass through.
 */
export function mountSmallDisk(directory: string, mebibytes: number): SmallDisk {
  mkdirSync(directory, { recursive: true })
  const options = (more: string) => ['-o', `size=${mebibytes}m,mode=711${more}`]
  execFileSync('mount', ['-t', 'tmpfs', ...options(''), 'neap-test', directory])
  const remount = (more: string) => execFileSync('mount', ['-o', `remount,size=${mebibytes}m${more}`, directory])
  const { files } = statfsSync(directory)

  return {
    fill: (left) => fillDisk(directory, left),
    useInodes() {
      const now = statfsSync(directory)
      remount(`,nr_inodes=${now.files - now.ffree}`)
    },
    drain() {
      drainDisk(directory)
      remount(`,nr_inodes=${files}`)
    },
    readOnly: (yes) => void remount(yes ? ',ro' : ',rw'),
    unmount: () => void execFileSync('umount', [directory]),
  }
}

const FORMATS = {
  xfs: ['mkfs.xfs', '-q', '-m', 'reflink=1'],
  btrfs: ['mkfs.btrfs', '-q'],
  ext4: ['mkfs.ext4', '-q', '-m', '0'],
} as const

export type DiskFormat = keyof typeof FORMATS

/** For the `skip` of a test: why such filesystems cannot be mounted from images here. Returns false when they can. */
export function withoutFilesystems(...kinds: readonly DiskFormat[]): string | false {
  const absent = kinds.map((kind) => FORMATS[kind][0]).find((program) => spawnSync(program, ['-V']).error)
  if (absent) return `${absent} is not installed`
  if (spawnSync('losetup', ['--find']).status !== 0) return 'this machine has no free loop device'
  return withoutMounts()
}

/** Mounts a disk with XFS, which has reflinks, from an image. Returns its unmount. */
export function mountXfs(directory: string, image: string, mebibytes: number): () => void {
  return mountFilesystem('xfs', directory, image, mebibytes)
}

/** Mounts a disk with that filesystem from an image. Returns its unmount. */
export function mountFilesystem(kind: DiskFormat, directory: string, image: string, mebibytes: number): () => void {
  mkdirSync(directory, { recursive: true })
  writeFileSync(image, '')
  truncateSync(image, mebibytes * 2 ** 20)
  const [program, ...args] = FORMATS[kind]
  execFileSync(program, [...args, image])
  execFileSync('mount', ['-o', 'loop', image, directory])
  chmodSync(directory, 0o711)
  return () => void execFileSync('umount', [directory])
}

const fillerOf = (directory: string): string => join(directory, 'filler')

/** Fills the disk of a directory until `drainDisk`, except for `left` mebibytes. */
export function fillDisk(directory: string, left = 0): void {
  const file = openSync(fillerOf(directory), 'a')
  try {
    for (const size of [2 ** 20, 4096]) writeUntilFull(file, Buffer.alloc(size, 1))
    ftruncateSync(file, fstatSync(file).size - left * 2 ** 20)
  } finally {
    closeSync(file)
  }
}

export function drainDisk(directory: string): void {
  rmSync(fillerOf(directory), { force: true })
}

function writeUntilFull(file: number, bytes: Buffer): void {
  try {
    for (;;) writeSync(file, bytes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}
