/*
 * Room on the disk of the embedded catalog for what empties a full one: files beside the catalog. Where the full disk
 * refuses the deletion of a branch or project, or a start of the catalog, one of them is removed and it is tried again.
 * `neap up` makes them again when there is room for twice as much.
 */
import { randomFillSync } from 'node:crypto'
import { open, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from './config.ts'

const FILES = 2
const WAL_SEGMENT_BYTES = 16 * 2 ** 20
const FILE_BYTES = 2 * WAL_SEGMENT_BYTES
/** A smaller disk spares less. */
const MAX_SHARE = 1 / 16
const CHUNK_BYTES = 2 ** 20

type Place = Pick<Config, 'dataDir' | 'catalogUrl'>

const filesOf = (dataDir: string): string[] =>
  Array.from({ length: FILES }, (_, index) => join(dataDir, 'catalog', `reserve.${index + 1}`))

/** Makes the files that are missing while there is room for twice as much. */
export async function fillReserve({ dataDir, catalogUrl }: Place): Promise<void> {
  if (catalogUrl !== undefined) return
  for (const file of filesOf(dataDir)) {
    const { bsize, blocks, bavail } = await statfs(dataDir)
    const bytes = Math.min(FILE_BYTES, Math.floor((bsize * blocks * MAX_SHARE) / FILES / CHUNK_BYTES) * CHUNK_BYTES)
    const found = await stat(file).catch(() => undefined)
    if (found?.size === bytes) continue
    if (bsize * bavail < 2 * FILES * bytes) return
    await write(file, bytes)
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

/** Frees the room of one file. Returns false when all are gone. */
async function releaseReserve({ dataDir, catalogUrl }: Place): Promise<boolean> {
  if (catalogUrl !== undefined) return false
  for (const file of filesOf(dataDir)) {
    const isThere = await rm(file).then(
      () => true,
      () => false,
    )
    if (isThere) return true
  }
  return false
}

/** Whether too little is left for a segment of WAL. */
export async function lacksWalRoom({ dataDir }: Place): Promise<boolean> {
  const { bsize, bavail } = await statfs(dataDir)
  return bsize * bavail < WAL_SEGMENT_BYTES
}

/** Less room is too little for the notes and logs of a start. */
const START_BYTES = 2 ** 20

/** Frees the room of one file where too little is left for a start. */
export async function makeStartRoom(place: Place): Promise<void> {
  const { bsize, bavail } = await statfs(place.dataDir)
  if (bsize * bavail < START_BYTES) await releaseReserve(place)
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
