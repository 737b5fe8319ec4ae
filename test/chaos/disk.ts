import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newDataDir } from '../neap.ts'

const run = promisify(execFile)
const MEBIBYTES = 3_000
/** What the filesystem needs for itself. */
const SPARE_MEBIBYTES = 100

/** Where a run keeps its data. */
export interface Disk {
  readonly dataDir: string
  /** A filesystem of its own, which may be filled without harm to others. */
  readonly own: boolean
  /** Lets nothing be written until `thaw`: whoever tries waits. Not where only a simpler filesystem could be mounted. */
  readonly freeze?: (() => Promise<void>) | undefined
  readonly thaw: () => void
  readonly release: () => void
}

/** A data directory, on a filesystem of its own in memory where mounting one is allowed. */
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

/** An image in memory with a filesystem of the kind that most machines have. */
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
