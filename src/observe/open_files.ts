import { readFileSync } from 'node:fs'

/**
 * The open files that this process may have; Infinity if unknown. Node raises the limit to the hard one when it starts.
 */
export function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? Infinity : Number(soft)
  } catch {
    return Infinity
  }
}

/** Descriptors reserved for the catalog, listeners, logs, and clients that are being refused for lack of room. */
export const RESERVED_FILES = 96
