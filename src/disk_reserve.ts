/*
 * Room on the disk of the embedded catalog for what empties a full one: large files beside the catalog, and directories
 * of empty files, which hold inodes. Where the full disk refuses the deletion of a branch or project, or a start of the
 * catalog, one of each is removed and it is tried again. `neap up` makes them again when there is room for twice as
 * much.
 */
import { randomFillSync } from 'node:crypto'
import type { StatsFs } from 'node:fs'
import { mkdir, open, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from './config.ts'

const FILES = 2
const WAL_SEGMENT_BYTES = 16 * 2 ** 20
const FILE_BYTES = 2 * WAL_SEGMENT_BYTES
/** A smaller disk spares less. */
const MAX_SHARE = 1 / 16
const CHUNK_BYTES = 2 ** 20
/** Empty files of each directory: more than a start of Neap makes. */
const INODES = 64

type Place = Pick<Config, 'dataDir' | 'catalogUrl'>

const filesOf = (dataDir: string): string[] =>
  Array.from({ length: FILES }, (_, index) => join(dataDir, 'catalog', `reserve.${index + 1}`))

const inodesOf = (file: string): string => `${file}.inodes`

/** The free inodes of a filesystem. One that allocates inodes on demand reports a total of 0. */
const freeInodes = ({ files, ffree }: StatsFs): number => (files === 0 ? Infinity : ffree)

/** Makes the files that are missing while there is room for twice as much. */
export async function fillReserve(place: Place): Promise<void> {
  const { dataDir, catalogUrl } = place
  if (catalogUrl !== undefined) return
  await reserveInodes(place)
  for (const file of filesOf(dataDir)) {
    const { bsize, blocks, bavail } = await statfs(dataDir)
    const bytes = Math.min(FILE_BYTES, Math.floor((bsize * blocks * MAX_SHARE) / FILES / CHUNK_BYTES) * CHUNK_BYTES)
    const found = await stat(file).catch(() => undefined)
    if (found?.size === bytes) continue
    if (bsize * bavail < 2 * FILES * bytes) return
    await write(file, bytes)
  }
}

async function reserveInodes({ dataDir }: Place): Promise<void> {
  for (const directory of filesOf(dataDir).map(inodesOf)) {
    const free = freeInodes(await statfs(dataDir))
    if (free === Infinity || free < 2 * FILES * INODES) return
    // The last one: all are there.
    if (await stat(join(directory, String(INODES))).catch(() => undefined)) continue
    await mkdir(directory, { recursive: true, mode: 0o700 })
    for (let file = 1; file <= INODES; file++) await writeFile(join(directory, String(file)), '', { mode: 0o600 })
  }
}

async function write(path: string, bytes: number): Promise<void> {
  // A filesystem that compresses would store zeros in no room at all.
  const chunk = randomFillSync(Buffer.alloc(CHUNK_BYTES))
  const file = await open(path, 'w', 0o600)
  try {
    for (let written = 0; written < bytes; written += CHUNK_BYTES) await file.write(chunk)
    await file.sync()
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

/** Frees the room of one file, and of one directory. Returns false when all are gone. */
async function releaseReserve({ dataDir, catalogUrl }: Place): Promise<boolean> {
  if (catalogUrl !== undefined) return false
  for (const file of filesOf(dataDir)) {
    const removed = await Promise.allSettled([rm(file), rm(inodesOf(file), { recursive: true })])
    if (removed.some(({ status }) => status === 'fulfilled')) return true
  }
  return false
}

/** Whether too little is left for a segment of WAL. */
export async function lacksWalRoom({ dataDir }: Place): Promise<boolean> {
  const found = await statfs(dataDir)
  return found.bsize * found.bavail < WAL_SEGMENT_BYTES || freeInodes(found) < START_INODES
}

/** Less room is too little for the notes and logs of a start. */
const START_BYTES = 2 ** 20
const START_INODES = 16

/** Frees the room of one file where too little is left for a start. */
export async function makeStartRoom(place: Place): Promise<void> {
  const found = await statfs(place.dataDir)
  if (found.bsize * found.bavail < START_BYTES || freeInodes(found) < START_INODES) await releaseReserve(place)
}

/** Runs `work`, and again with room from the reserve while it fails because the disk is full. */
export async function withReserve<T>(
  place: Place,
  isShort: (error: unknown) => boolean | Promise<boolean>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(await isShort(error)) || !(await releaseReserve(place))) throw error
    return withReserve(place, isShort, work)
  }
}
