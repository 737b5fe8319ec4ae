import { UsageError } from '../../errors.ts'
import { withFileLock } from '../../host/file_lock.ts'
import { isMounted, unmountImage } from './mount.ts'
import { openImage, openLocked } from './open.ts'
import { hasImage, type ImagePlace, placeOf } from './place.ts'
import { growImage, trimImage } from './room.ts'
import { chooseSize } from './tend.ts'

const LOCK_SECONDS = 30

/** Gives the image of a data directory this size. Errors: UsageError. */
export const growImageOf = (dataDir: string, bytes: number): Promise<void> =>
  withImage(dataDir, async (place) => {
    await growImage(place, bytes)
    await chooseSize(place)
  })

/** Gives all but `keep` bytes of its free room back to the disk below. Returns how many. Errors: UsageError. */
export const trimImageOf = (dataDir: string, keep: number): Promise<number> =>
  withImage(dataDir, async (place) => {
    const given = await trimImage(place, keep)
    await chooseSize(place)
    return given
  })

async function withImage<T>(dataDir: string, work: (place: ImagePlace) => Promise<T>): Promise<T> {
  const place = placeOf(dataDir)
  if (!hasImage(place)) throw new UsageError(`${dataDir} has no image: neap storage init makes one.`)
  if (process.getuid?.() !== 0) throw new UsageError(`The image in ${dataDir} is root's: run this with sudo.`)
  return whileMounted(dataDir, () => work(place))
}

/** Runs `work` while the image of a data directory, where it has one, is mounted; unmounts it after if it was not. */
export async function whileMounted<T>(dataDir: string, work: () => Promise<T>): Promise<T> {
  const place = placeOf(dataDir)
  if (!hasImage(place)) return work()
  if (process.getuid?.() !== 0) {
    await openImage(dataDir)
    return work()
  }
  return withFileLock(place.lock, LOCK_SECONDS, async () => {
    const wasMounted = await isMounted(place)
    await openLocked(place)
    try {
      return await work()
    } finally {
      if (!wasMounted) await unmountImage(place.mountPoint)
    }
  })
}
