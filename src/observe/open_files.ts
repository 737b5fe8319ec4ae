import { readFileSync } from 'node:fs'

/** How many files this process may have open; Infinity where nothing says. Node has raised the limit to the hard one before it runs anything. */
export function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? Infinity : Number(soft)
  } catch {
    return Infinity
  }
}

/** Descriptors that are kept for what is no client: the catalog, listeners, logs, and whoever is only being told that there is no room. */
export const RESERVED_FILES = 96
