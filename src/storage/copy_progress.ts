/*
 * How far a copy is. The copier notes it in a file of the new store a few times per second, once the copy has lasted
 * that long; the worker reads it there. A copier that was killed may leave the file: the next copy replaces it.
 */
import { closeSync, constants, lstatSync, openSync, readFileSync, readdirSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { bytesText, partOfBytes } from '../bytes.ts'
import { openBelow, openPath, type Source } from './copy_tree.ts'

/** How far the copy into a store is, in bytes. */
export interface CopyProgress {
  readonly copiedBytes: number
  readonly totalBytes: number
  /** An estimate, from the bytes per second so far. */
  readonly secondsLeft: number
  /** All bytes are copied and are being written to disk. */
  readonly syncs: boolean
}

export const COPY_PROGRESS_FILE = 'copy.progress'
/** Small copies end earlier, and do not pay for the count of the bytes to copy. */
const NOTE_MS = 400
/** Each note replaces the whole of the one before. */
const NOTE_LENGTH = 160

/** Counts the bytes of a copy into the store with this directory, and notes them. */
export interface CopyMeter {
  readonly add: (bytes: number) => void
  /** All is copied, and is about to be written to disk. */
  readonly sync: () => void
}

/** @param sizeOfSource called once, if the copy lasts: the bytes that are to be copied */
export function meterCopy(home: string, sizeOfSource: () => number): CopyMeter {
  const path = join(home, COPY_PROGRESS_FILE)
  rmSync(path, { force: true })
  const begun = performance.now()
  let noted = begun
  let file: number | undefined
  let [copied, total] = [0, 0]

  function note(syncs: boolean): void {
    total = Math.max(total || sizeOfSource(), copied)
    noted = performance.now()
    const secondsLeft = Math.ceil(((noted - begun) / 1000) * (total / Math.max(copied, 1) - 1))
    const progress: CopyProgress = { copiedBytes: copied, totalBytes: total, secondsLeft, syncs }
    try {
      file ??= openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
      writeSync(file, JSON.stringify(progress).padEnd(NOTE_LENGTH), 0)
    } catch {
      // A full disk: the copy itself finds it.
    }
  }

  return {
    add(bytes) {
      copied += bytes
      if (performance.now() - noted >= NOTE_MS) note(false)
    },
    sync() {
      if (file !== undefined) note(true)
    },
  }
}

/** The bytes of the files below an open directory, without those that `skip` leaves out. */
export function bytesBelow(source: Source, skip: (path: string) => boolean, prefix = ''): number {
  let bytes = 0
  for (const entry of readdirSync(openPath(source), { withFileTypes: true })) {
    const path = prefix + entry.name
    if (skip(path)) continue
    // A running server removes files meanwhile.
    if (entry.isFile()) bytes += lstatSync(join(openPath(source), entry.name), { throwIfNoEntry: false })?.size ?? 0
    const below = entry.isDirectory() ? openBelow(source, entry.name, constants.O_DIRECTORY) : undefined
    if (!below) continue
    try {
      bytes += bytesBelow(below, skip, `${path}/`)
    } finally {
      closeSync(below.file)
    }
  }
  return bytes
}

/** How far the copy into a store is; undefined when there is no copy, or it has not noted that. */
export function readCopyProgress(home: string): CopyProgress | undefined {
  try {
    return JSON.parse(readFileSync(join(home, COPY_PROGRESS_FILE), 'utf8')) as CopyProgress
  } catch {
    return undefined
  }
}

/** The progress of a copy for its owner: the text changes as the copy advances. */
export function copyProgressText({ copiedBytes, totalBytes, secondsLeft, syncs }: CopyProgress): string {
  if (syncs) return `${bytesText(copiedBytes)}, all of it, are being written to disk`
  const share = Math.floor((100 * copiedBytes) / totalBytes)
  const left = secondsLeft < 120 ? `${secondsLeft} s` : `${Math.ceil(secondsLeft / 60)} min`
  return `${partOfBytes(copiedBytes, totalBytes)} (${share} %), about ${left} left`
}
