import { open } from 'node:fs/promises'
import { runEffectHere } from './effect.ts'

/** A lock on a file that the kernel drops when this process ends, however it ends. */
export interface FileLock {
  readonly release: () => Promise<void>
}

/** Takes the lock on a file. Returns undefined when another process still has it after so many seconds, at least 1. */
export async function takeFileLock(path: string, seconds: number): Promise<FileLock | undefined> {
  // Mode 0600: any user who may open the file, even for reading, can take its kernel lock.
  const file = await open(path, 'a', 0o600)
  let taken = false
  try {
    // The child locks the open file description that both share; after the child has ended this process alone holds the
    // lock.
    taken = (await runEffectHere(['take', String(seconds)], { descriptors: [file.fd] })) === 'done'
    return taken ? { release: () => file.close() } : undefined
  } finally {
    if (!taken) await file.close()
  }
}

/** Runs `work` while this process holds the lock. Errors: another process still has it after so many seconds. */
export async function withFileLock<T>(path: string, seconds: number, work: () => Promise<T>): Promise<T> {
  const lock = await takeFileLock(path, seconds)
  if (!lock) throw new Error(`${path} stays locked by another process`)
  try {
    return await work()
  } finally {
    await lock.release()
  }
}
