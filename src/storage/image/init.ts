import { existsSync } from 'node:fs'
import { chmod, chown, lchown, mkdir, open, rename, rmdir, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from '../../errors.ts'
import { cloneKindOf } from '../../host/clone_kind.ts'
import { syncDirectory } from '../../durable_file.ts'
import { syncFilesystem } from '../../host/durable.ts'
import { withFileLock } from '../../host/file_lock.ts'
import { layoutOf, type Owner } from '../../host/layout.ts'
import { waitStopped } from '../../host/server_lock.ts'
import { storedIds } from '../remove.ts'
import { mountImage, unmountImage } from './mount.ts'
import { openLocked, undoInit } from './open.ts'
import { hasImage, type ImagePlace, movedIn, placeOf } from './place.ts'
import { extend, freeBytes, mib, MIB, MIN_BYTES, requireRoom } from './room.ts'
import { runTool } from './tool.ts'

const LOCK_SECONDS = 1

/** Fresh XFS uses about this much; beside the copies there is room for more stores. */
const GROWTH = 1.5

/**
 * Makes the image of a data directory on which no Neap runs, and moves its stores there. A kill at any point leaves a
 * state that the next start, or the next init, completes or undoes.
 * @param bytes its size; by default half of the room of the disk below, and more if the stores need it
 * @param say told of each step that takes long
 * @returns the size of the image
 * @throws UsageError when there is one, files are cloned without one, computes run, or the disk has no room for it
 */
export async function initImage(
  dataDir: string,
  bytes: number | undefined,
  say: (step: string) => void,
): Promise<number> {
  const place = placeOf(dataDir)
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new UsageError('An image is mounted, which only root on Linux can do: run this with sudo.')
  return withFileLock(place.lock, LOCK_SECONDS, async () => {
    await openLocked(place)
    if (hasImage(place)) {
      await unmountImage(place.mountPoint)
      throw new UsageError(`${dataDir} has an image already: neap storage grow makes it larger.`)
    }
    if ((await cloneKindOf(dataDir)) === 'reflink')
      throw new UsageError(`The filesystem of ${dataDir} clones files by itself: it needs no image.`)
    await requireStopped(place, dataDir)
    const size = await chooseSize(place, bytes)
    // Of an ordinary user, for whose Neap root mounts it.
    const owner = await stat(dataDir)
    try {
      await make(place, size, owner)
      await setAside(place, owner)
      // A worker of its own may have started a compute meanwhile; from here on it cannot.
      await requireStopped(place, dataDir, true)
      await fill(place, owner, say)
      await rename(place.making, place.image)
      await syncDirectory(dataDir)
    } catch (error) {
      if (!hasImage(place)) await undoInit(place)
      throw error
    }
    await openLocked(place)
    await unmountImage(place.mountPoint)
    return size
  })
}

async function requireStopped(place: ImagePlace, dataDir: string, isAside = false): Promise<void> {
  const layout = layoutOf({ dataDir, runtimeDir: dataDir })
  const branches = isAside ? join(dataDir, 'branches.aside') : layout.branches
  for (const id of await storedIds({ ...layout, branches })) {
    const home = join(branches, id)
    if (existsSync(home) && (await waitStopped(home, 0)) === 'pending')
      throw new UsageError(`A compute, or a copy, runs on the store ${id} of ${place.dataDir}: end Neap first.`)
  }
}

async function chooseSize(place: ImagePlace, bytes: number | undefined): Promise<number> {
  const stored = await bytesIn(place)
  const least = Math.max(MIN_BYTES, Math.ceil((stored * GROWTH) / MIB) * MIB)
  const size = Math.floor((bytes ?? Math.max(least, (await freeBytes(place.dataDir)) / 2)) / MIB) * MIB
  if (size < least) throw new UsageError(`The stores of ${place.dataDir} need an image of ${mib(least)} at least.`)
  await requireRoom(place, size)
  return size
}

/** The bytes on the disk of all directories that move. */
async function bytesIn(place: ImagePlace): Promise<number> {
  const paths = movedIn(place)
    .map(({ link }) => link)
    .filter((path) => existsSync(path))
  if (paths.length === 0) return 0
  const lines = await runTool('du', ['--summarize', '--block-size=1', '--total', '--', ...paths])
  return Number(/(\d+)\ttotal/.exec(lines)?.[1] ?? 0)
}

async function make({ making, makingMount }: ImagePlace, bytes: number, owner: Owner): Promise<void> {
  await (await open(making, 'wx', 0o600)).close()
  await extend(making, bytes)
  // -K: without discards, which would give the reserved blocks back. Reverse mappings make clones of many extents four
  // times as slow, and serve a scrub of a mounted filesystem only.
  await runTool('mkfs.xfs', ['-q', '-K', '-m', 'reflink=1,rmapbt=0', making])
  await mkdir(makingMount, { mode: 0o711 })
  await mountImage(making, makingMount)
  await chmod(makingMount, 0o711)
  await chown(makingMount, owner.uid, owner.gid)
}

/** Puts dangling links in the directories' places: an effect on a store now fails instead of being lost. */
async function setAside(place: ImagePlace, owner: Owner): Promise<void> {
  await mkdir(place.mountPoint, { recursive: true, mode: 0o711 })
  await chown(place.mountPoint, owner.uid, owner.gid)
  for (const { link, target, aside } of movedIn(place)) {
    if (existsSync(link)) await rename(link, aside)
    await symlink(target, link)
    await lchown(link, owner.uid, owner.gid)
  }
  await syncDirectory(place.dataDir)
}

async function fill(place: ImagePlace, owner: Owner, say: (step: string) => void): Promise<void> {
  for (const { aside, name } of movedIn(place)) {
    const inside = join(place.makingMount, name)
    if (existsSync(aside)) {
      say(`moving ${name} into the image`)
      // It ends with this process, or it would keep the image in use.
      await runTool('setpriv', ['--pdeathsig', 'KILL', 'cp', '--archive', '--no-target-directory', aside, inside])
    } else {
      await mkdir(inside, { mode: 0o711 })
      await chown(inside, owner.uid, owner.gid)
    }
  }
  await syncFilesystem(place.makingMount)
  if (!(await unmountImage(place.makingMount))) throw new UsageError(`${place.makingMount} is in use.`)
  await rmdir(place.makingMount)
  const file = await open(place.making)
  await file.sync()
  await file.close()
}
