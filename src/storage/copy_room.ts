import { statfs } from 'node:fs/promises'
import { bytesText } from '../bytes.ts'
import { cloneKindOf } from '../host/clone_kind.ts'
import { bytesBelow } from './copy_progress.ts'
import type { Source } from './copy_tree.ts'

/** Left for the writes of running servers meanwhile. */
const SPARED_BYTES = 16 * 2 ** 20

/**
 * Checks that a copy byte by byte has room, before it takes any. Returns the bytes that it may have.
 * Errors: it has not; worded as the system's, since it is waited for in the same way.
 */
export async function requireCopyRoom(
  source: Source,
  directory: string,
  skip: (path: string) => boolean,
): Promise<number> {
  // On a full disk there is no room for the probe either.
  if ((await cloneKindOf(directory).catch(() => 'copy')) === 'reflink') return Infinity
  return requireFree(directory, bytesBelow(source, skip), 'the copy')
}

/**
 * Checks that a disk has room before work takes it. Returns the bytes that it may have. Errors: as `requireCopyRoom`.
 * @param what the work, for the error
 */
export async function requireFree(directory: string, bytes: number, what: string): Promise<number> {
  const { bsize, bavail } = await statfs(directory)
  const [needed, free] = [bytes + SPARED_BYTES, bsize * bavail]
  if (needed > free)
    throw new Error(`no space left on device: ${what} needs ${bytesText(needed)}, and ${bytesText(free)} are free`)
  return free - SPARED_BYTES
}
