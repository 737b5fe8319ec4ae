import { existsSync, statSync } from 'node:fs'
import { open, statfs, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf, UsageError } from '../../errors.ts'
import { syncFilesystem } from '../../host/durable.ts'
import { deviceOf, spaceOf } from './mount.ts'
import type { ImagePlace } from './place.ts'
import { runTool } from './tool.ts'

/*
 * All blocks of an image are reserved on the disk below, so that a full disk there never fails a write in it. Room that
 * a trim gives back is held inside the image by a file of unwritten extents, the ballast, and only blocks of that are
 * holes below: the filesystem in the image counts them as used until they are reserved again.
 */

const BLOCK = 4096
export const MIB = 2 ** 20
/** The smallest filesystem that mkfs.xfs makes has 300 MiB. */
export const MIN_BYTES = 512 * MIB
/** The part of the disk below that an image leaves free. */
const SPARED = 0.05

const ballastOf = ({ mountPoint }: ImagePlace): string => join(mountPoint, 'ballast')

/** The bytes of the ballast: given back to the disk below, and missing in the image until it grows. */
export const trimmedBytes = (place: ImagePlace): number =>
  statSync(ballastOf(place), { throwIfNoEntry: false })?.size ?? 0

export async function freeBytes(directory: string): Promise<number> {
  const { bsize, bavail } = await statfs(directory)
  return bsize * bavail
}

/** Errors: UsageError, where the disk below has not so much room, beside a spare. */
export async function requireRoom({ dataDir }: ImagePlace, bytes: number): Promise<void> {
  const { bsize, blocks } = await statfs(dataDir)
  const most = Math.max(0, (await freeBytes(dataDir)) - bsize * blocks * SPARED)
  if (bytes > most)
    throw new UsageError(
      `The disk of ${dataDir} has room for ${mib(most)} more, and that needs ${mib(bytes)}: ` +
        `choose less or make room there.`,
    )
}

export const mib = (bytes: number): string => `${Math.floor(bytes / MIB)} MiB`

/** Reserves the bytes of a file up to a size, beyond its end. Errors: the disk is full; the file is as before. */
export async function extend(file: string, bytes: number): Promise<void> {
  const before = statSync(file).size
  try {
    await runTool('fallocate', ['--keep-size', '--offset', String(before), '--length', String(bytes - before), file])
  } catch (error) {
    await truncate(file, before)
    throw error
  }
  await truncate(file, bytes)
}

/**
 * Gives an image that is mounted this size. Room that a trim gave back is reserved again first. Repeatable.
 * @throws UsageError when that is less than it has, or the disk below has no room for it
 */
export async function growImage(place: ImagePlace, bytes: number): Promise<void> {
  const { bytes: now } = spaceOf(place.image)
  if (bytes < now)
    throw new UsageError(
      `The image has ${mib(now)} already, and XFS does not shrink: ` +
        'neap storage trim gives unused room back to the disk below.',
    )
  await requireRoom(place, bytes - now + trimmedBytes(place))
  await takeBack(place, trimmedBytes(place))
  if (bytes > now) await extend(place.image, bytes)
  await completeGrowth(place)
}

/** Lets the filesystem of a mounted image take all of its file. Repeatable. */
export async function completeGrowth({ image, mountPoint }: ImagePlace): Promise<void> {
  if (spaceOf(image).bytes - (await filesystemBytes(image)) < BLOCK) return
  const device = await deviceOf(image)
  if (device === undefined) return
  await runTool('losetup', ['--set-capacity', device])
  await runTool('xfs_growfs', ['-d', mountPoint])
  await syncFilesystem(mountPoint)
}

/** The size that its superblock states: after the magic number the size of a block, then their number. */
async function filesystemBytes(image: string): Promise<number> {
  const file = await open(image)
  try {
    const { buffer } = await file.read(Buffer.alloc(16), 0, 16, 0)
    return buffer.readUInt32BE(4) * Number(buffer.readBigUInt64BE(8))
  } finally {
    await file.close()
  }
}

/**
 * Gives the unused room of a mounted image back to the disk below, but for so many bytes. Returns how many it gave.
 */
export async function trimImage(place: ImagePlace, keep: number): Promise<number> {
  const ballast = ballastOf(place)
  const length = Math.floor(((await freeBytes(place.mountPoint)) - keep) / MIB) * MIB
  if (length <= 0) return 0
  const before = trimmedBytes(place)
  await (await open(ballast, 'a', 0o600)).close()
  await runTool('fallocate', ['--offset', String(before), '--length', String(length), ballast])
  // The blocks belong to the ballast on the disk before they are holes.
  await syncFilesystem(place.mountPoint)
  await onImage(place, 'fpunch')
  return length
}

/** Reserves so many bytes at the end of the ballast again, and makes it shorter by them. */
export async function takeBack(place: ImagePlace, bytes: number): Promise<void> {
  if (!existsSync(ballastOf(place))) return
  const kept = Math.max(0, trimmedBytes(place) - bytes)
  await onImage(place, 'falloc', kept)
  await truncate(ballastOf(place), kept)
}

/** Runs a command of xfs_io(8) on the bytes of the image that are the ballast's, from an offset in that on. */
async function onImage(place: ImagePlace, command: 'fpunch' | 'falloc', from = 0): Promise<void> {
  const ranges = await ballastRanges(place, from)
  const commands = ranges.map(({ offset, length }) => `${command} ${offset} ${length}\n`)
  await runTool('xfs_io', [place.image], commands.join(''))
}

interface Range {
  readonly offset: number
  readonly length: number
}

const SECTOR = 512

/** Where the ballast, from an offset in it on, lies in the image, in order. */
async function ballastRanges(place: ImagePlace, from = 0): Promise<Range[]> {
  if (!existsSync(ballastOf(place))) return []
  const map = await runTool('xfs_io', ['-r', '-c', 'fiemap', ballastOf(place)])
  // "0: [0..203271]: 204880..408151", in sectors.
  return [...map.matchAll(/\[(\d+)\.\.\d+\]: (\d+)\.\.(\d+)/g)]
    .map(([, logical, first, last]) => {
      const before = Math.max(0, from - Number(logical) * SECTOR)
      const length = (Number(last) - Number(first) + 1) * SECTOR
      return { offset: Number(first) * SECTOR + before, length: length - before }
    })
    .filter(({ length }) => length > 0)
    .toSorted((a, b) => a.offset - b.offset)
}

/**
 * Reserves the blocks of a mounted image that are not, as in a copy of it that was made sparse.
 * @returns a warning, when the disk below has no room for them
 */
export async function reserve(place: ImagePlace): Promise<string | undefined> {
  const { bytes, reserved } = spaceOf(place.image)
  if (reserved >= bytes - trimmedBytes(place) - BLOCK) return undefined
  let from = 0
  const commands: string[] = []
  for (const { offset, length } of [...(await ballastRanges(place)), { offset: bytes, length: 0 }]) {
    if (offset > from) commands.push(`falloc ${from} ${offset - from}\n`)
    from = offset + length
  }
  try {
    await runTool('xfs_io', [place.image], commands.join(''))
    const now = spaceOf(place.image).reserved
    if (now >= bytes - trimmedBytes(place) - BLOCK) return undefined
    return shortOf(place, bytes - trimmedBytes(place) - now)
  } catch (error) {
    return `${shortOf(place, bytes - reserved)} (${messageOf(error)})`
  }
}

const shortOf = ({ image }: ImagePlace, bytes: number): string =>
  `${mib(bytes)} of ${image} are not reserved on the disk below, so that a full disk there can fail writes: ` +
  'make room there and start again.'
