import { existsSync, lstatSync, statSync } from 'node:fs'
import { readlink, rename, rm, rmdir, symlink } from 'node:fs/promises'
import { UsageError } from '../../errors.ts'
import { syncDirectory } from '../../durable_file.ts'
import { withFileLock } from '../../host/file_lock.ts'
import { isMounted, mountImage, releaseDevice, unmountImage } from './mount.ts'
import { hasImage, type ImagePlace, movedIn, placeOf } from './place.ts'
import { completeGrowth, reserve } from './room.ts'

/** A mount replays the filesystem's log; another process may be at it. */
const LOCK_SECONDS = 120

/**
 * Mounts the image of a data directory, where it has one, after completing or undoing an init that was killed. Safe in
 * any number of processes at once.
 * @returns a warning, when part of the image could not be reserved on the disk below
 * @throws UsageError when this process cannot mount it, or stores lie beside it
 */
export async function openImage(dataDir: string): Promise<string | undefined> {
  const place = placeOf(dataDir)
  if (!hasImage(place) && !isUnfinished(place)) return undefined
  if (process.getuid?.() !== 0) {
    if (isOtherDisk(place)) return undefined
    throw new UsageError(
      `The stores of ${dataDir} lie in ${place.image}, which is not mounted: sudo npx neap storage mount ` +
        `--data-dir ${dataDir} (docs/storage.md says how it is at each boot).`,
    )
  }
  return withFileLock(place.lock, LOCK_SECONDS, () => openLocked(place))
}

/** `openImage` for a caller that has the lock. */
export async function openLocked(place: ImagePlace): Promise<string | undefined> {
  if (!hasImage(place)) {
    await undoInit(place)
    return undefined
  }
  if (!(await isMounted(place))) await mountImage(place.image, place.mountPoint)
  await completeInit(place)
  await completeGrowth(place)
  return reserve(place)
}

/** Whether an ordinary user finds the image mounted: its loop device is root's. */
const isOtherDisk = ({ dataDir, mountPoint }: ImagePlace): boolean =>
  statSync(mountPoint, { throwIfNoEntry: false })?.dev !== statSync(dataDir).dev && existsSync(mountPoint)

const isUnfinished = (place: ImagePlace): boolean =>
  existsSync(place.making) || existsSync(place.makingMount) || movedIn(place).some(({ aside }) => existsSync(aside))

/** Puts the directories of an unfinished init back in place, and removes its image. Repeatable. */
export async function undoInit(place: ImagePlace): Promise<void> {
  for (const { link, aside } of movedIn(place)) {
    if (isLink(link)) await rm(link)
    if (existsSync(aside)) await rename(aside, link)
  }
  await syncDirectory(place.dataDir)
  if (!(await unmountImage(place.makingMount)))
    throw new UsageError(`${place.makingMount} is in use: end what works there, and start again.`)
  if (existsSync(place.makingMount)) await rmdir(place.makingMount)
  // Where the process was killed before the mount.
  if (existsSync(place.making)) await releaseDevice(place.making)
  await rm(place.making, { force: true })
}

/** Makes the links that are missing, and removes the directories that init has set aside. Repeatable. */
async function completeInit(place: ImagePlace): Promise<void> {
  for (const { name, link, target, aside } of movedIn(place)) {
    if (!lstatSync(link, { throwIfNoEntry: false })) await symlink(target, link)
    else if (!isLink(link) || (await readlink(link)) !== target)
      throw new UsageError(
        `${link} is not the link to ${target} that it was, so stores may lie in both: ` +
          `move it away if the image has all of them (they are in ${place.mountPoint}/${name}).`,
      )
    await rm(aside, { recursive: true, force: true })
  }
  if (existsSync(place.makingMount)) await rmdir(place.makingMount)
}

const isLink = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false

/** Unmounts the image of a data directory. Returns false when it is in use, as by computes that were left running. */
export async function closeImage(dataDir: string): Promise<boolean> {
  const place = placeOf(dataDir)
  // Root has mounted it for this user.
  if (!hasImage(place) || process.getuid?.() !== 0) return true
  return withFileLock(place.lock, LOCK_SECONDS, () => unmountImage(place.mountPoint))
}
