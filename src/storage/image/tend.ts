/*
 * The size of an image follows the size of its content, in steps:
 *
 *   short of room ──the disk below has room──▶ larger: first the ballast becomes smaller, then the file longer
 *                 ──the disk below is full──▶ a problem, which is reported until there is room
 *   half empty, and larger than its operator chose ──▶ unused room goes back to the disk below
 *
 * Each step reserves its blocks on the disk below before the filesystem in the image has them.
 */
import { readFileSync } from 'node:fs'
import { rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { bytesText } from '../../bytes.ts'
import { replaceFile } from '../../durable_file.ts'
import { messageOf } from '../../errors.ts'
import { withFileLock } from '../../host/file_lock.ts'
import { isMounted, spaceOf } from './mount.ts'
import { hasImage, type ImagePlace, placeOf } from './place.ts'
import { completeGrowth, extend, MIB, takeBack, trimImage, trimmedBytes } from './room.ts'

/** Free room is short below this part of the image, or so many bytes. */
const SHORT = 0.15
const SHORT_BYTES = 32 * 1024 * MIB
/** A step is this part of the image, but no less and no more than so many bytes. */
const STEP = 0.2
const STEP_BYTES = [256 * MIB, 64 * 1024 * MIB] as const
/** Less room is no step. */
const LEAST_BYTES = 32 * MIB
/** The part of the disk below that growth leaves free. */
const SPARED = 0.1
/** From this part on free room is given back, until that part is free. */
const [EMPTY, LEFT] = [0.5, 0.3]

/** An image as it is now. */
export interface ImageState {
  /** Its size without trimmed room: so much it takes of the disk below. */
  readonly bytes: number
  readonly free_bytes: number
  readonly trimmed_bytes: number
  /** By how much it may grow by itself, within the room of the disk below and its limit. */
  readonly growable_bytes: number
  /** Why an image that is short of room does not grow; null otherwise. */
  readonly problem: string | null
}

/** The result of a turn: an image that took so many bytes of the disk below, or gave them back (below 0). */
export interface TendedImage {
  readonly image: ImageState
  readonly change: number
}

/**
 * The state of the image of a data directory; undefined without one.
 * @param most the bytes that it may take of the disk below by itself; undefined: all but a tenth of that
 */
export async function readImage(place: ImagePlace, most: number | undefined): Promise<ImageState | undefined> {
  if (!hasImage(place)) return undefined
  const [inside, below] = await Promise.all([statfs(place.mountPoint), statfs(place.dataDir)])
  const trimmed = trimmedBytes(place)
  const bytes = spaceOf(place.image).bytes - trimmed
  const spare = below.bsize * (below.bavail - below.blocks * SPARED)
  const growable = Math.max(0, Math.min(spare, (most ?? Infinity) - bytes))
  const state = {
    bytes,
    free_bytes: inside.bsize * inside.bavail,
    trimmed_bytes: trimmed,
    growable_bytes: process.getuid?.() === 0 ? Math.floor(growable / MIB) * MIB : 0,
  }
  return { ...state, problem: whyShort(place, state, { most, freeBelow: below.bsize * below.bavail }) }
}

const isShort = ({ bytes, free_bytes }: Pick<ImageState, 'bytes' | 'free_bytes'>): boolean =>
  free_bytes < Math.min(bytes * SHORT, SHORT_BYTES)

/** Why an image that is short of room cannot grow, and the remedy; null if it has room, or can. */
function whyShort(
  { image, dataDir }: ImagePlace,
  state: Omit<ImageState, 'problem'>,
  { most, freeBelow }: { most: number | undefined; freeBelow: number },
): string | null {
  if (!isShort(state) || state.growable_bytes >= LEAST_BYTES) return null
  const short = `Only ${bytesText(state.free_bytes)} are free in ${image}`
  if (process.getuid?.() !== 0)
    return `${short}, which only root makes larger: sudo npx neap storage grow SIZE --data-dir ${dataDir}`
  if (most !== undefined && state.bytes + LEAST_BYTES > most)
    return `${short}, and NEAP_IMAGE_MAX_MB lets it take ${bytesText(most)}: raise that, or run neap storage grow`
  return (
    `${short}, and it cannot grow: the disk of ${dataDir} has ${bytesText(freeBelow)} free, ` +
    `and ${SPARED * 100} % of it stay free for the catalog and logs. Make room there, or delete branches.`
  )
}

/**
 * Lets the image of a data directory grow by a step if it is short of room, or give back room that it took by
 * itself and no longer needs. Returns undefined without an image. Errors: the system's.
 * @param most as of `readImage`
 */
export async function tendImage(dataDir: string, most: number | undefined): Promise<TendedImage | undefined> {
  const place = placeOf(dataDir)
  const before = await readImage(place, most)
  if (!before) return undefined
  const [wanted, given] = [growthOf(before), givenBack(place, before)]
  const isRoot = process.getuid?.() === 0
  if ((wanted === 0 && given === 0) || !isRoot || !(await isMounted(place))) return { image: before, change: 0 }
  return withFileLock(place.lock, 1, async () => {
    try {
      if (wanted > 0) await grow(place, before, wanted)
      else await trimImage(place, before.free_bytes - given)
    } catch (error) {
      const problem = `${place.image} is short of room and could not be made larger: ${messageOf(error)}`
      if (wanted > 0) return { image: { ...before, problem }, change: 0 }
      throw error
    }
    const image = (await readImage(place, most)) ?? before
    return { image, change: image.bytes - before.bytes }
  })
}

function growthOf(state: ImageState): number {
  if (!isShort(state)) return 0
  const step = Math.min(Math.max(state.bytes * STEP, STEP_BYTES[0]), STEP_BYTES[1], state.growable_bytes)
  return step < LEAST_BYTES ? 0 : Math.floor(step / MIB) * MIB
}

async function grow(place: ImagePlace, { bytes, trimmed_bytes }: ImageState, by: number): Promise<void> {
  if (chosenBytes(place) === undefined)
    await replaceFile(chosenFile(place), 0o600, Buffer.from(JSON.stringify({ bytes })))
  const back = Math.min(trimmed_bytes, by)
  if (back > 0) await takeBack(place, back)
  if (by > back) await extend(place.image, spaceOf(place.image).bytes + by - back)
  await completeGrowth(place)
}

/** The bytes that an image which has grown by itself gives back. */
function givenBack(place: ImagePlace, { bytes, free_bytes }: ImageState): number {
  const chosen = chosenBytes(place)
  if (chosen === undefined || free_bytes < bytes * EMPTY) return 0
  const needed = Math.max(chosen, (bytes - free_bytes) / (1 - LEFT))
  return bytes - needed < STEP_BYTES[0] ? 0 : Math.floor((bytes - needed) / MIB) * MIB
}

/** Notes the size that its operator has chosen, which an image that has grown by itself goes back to at most. */
const chosenFile = ({ dataDir }: ImagePlace): string => join(dataDir, 'image.chosen')

/** The size that was chosen; undefined where the image has not grown by itself. */
function chosenBytes(place: ImagePlace): number | undefined {
  try {
    const { bytes } = JSON.parse(readFileSync(chosenFile(place), 'utf8')) as { bytes?: unknown }
    return typeof bytes === 'number' ? bytes : undefined
  } catch {
    return undefined
  }
}

/** Takes the present size as the one that is chosen. */
export const chooseSize = (place: ImagePlace): Promise<void> => rm(chosenFile(place), { force: true })
