import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newDataDir } from '../neap.ts'

const run = promisify(execFile)
const MEBIBYTES = 6_000
/** The overhead of the filesystem. */
const SPARE_MEBIBYTES = 100

/** The storage of a run's data. */
export interface Disk {
  readonly dataDir: string
  /** Whether it is a separate filesystem, which can be filled without harm to others. */
  readonly own: boolean
  /** Blocks all writes until `thaw`. Undefined when the filesystem does not support it. */
  readonly freeze?: (() => Promise<void>) | undefined
  readonly thaw: () => void
  readonly release: () => void
}

/** A data directory, on a separate filesystem in memory where mounting is permitted. */
export function makeDisk(): Disk {
  const dir = newDataDir()
  const place = join(dir, 'disk')
  const dataDir = join(place, 'data')
  mkdirSync(place)
  const own = mount('-t', 'tmpfs', '-o', `size=${MEBIBYTES + SPARE_MEBIBYTES}m,mode=0711`, 'neap-chaos', dir)
  if (own) mkdirSync(place)
  const freezes = own && mountExt4(join(dir, 'image'), place)
  for (const each of [dir, place]) chmodSync(each, 0o711)
  mkdirSync(dataDir, { mode: 0o711 })
  const thaw = (): void => void (freezes && spawnSync('fsfreeze', ['--unfreeze', place]))
  return {
    dataDir,
    own,
    freeze: freezes ? async () => void (await run('fsfreeze', ['--freeze', place])) : undefined,
    thaw,
    release() {
      thaw()
      if (freezes) spawnSync('umount', ['-l', place])
      if (own) spawnSync('umount', ['-l', dir])
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Mounts an image in memory with ext4, which most machines use. Returns false when that is not possible. */
function mountExt4(image: string, place: string): boolean {
  if (spawnSync('fsfreeze', ['--version']).error) return false
  try {
    writeFileSync(image, '')
    truncateSync(image, MEBIBYTES * 2 ** 20)
    execFileSync('mkfs.ext4', ['-q', '-m', '0', image])
  } catch {
    return false
  }
  return mount('-o', 'loop', image, place)
}

const mount = (...args: string[]): boolean => spawnSync('mount', args).status === 0
