import { execFile } from 'node:child_process'
import { open } from 'node:fs/promises'
import { promisify } from 'node:util'
import { runEffectHere } from './effect.ts'

/** Writes a path's whole filesystem to the disk: for a thousand new files one call instead of a thousand. */
export async function syncFilesystem(path: string): Promise<void> {
  await promisify(execFile)('sync', process.platform === 'linux' ? ['-f', path] : [])
}

/** Makes the names in a directory durable: a rename survives a power cut only after this. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Runs `work` while this process holds the kernel lock of a file. The lock ends with the process. */
export async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  // Mode 0600: any user who may open the file, even for reading, can take its kernel lock.
  const file = await open(path, 'a', 0o600)
  try {
    // The child locks the open file description that both share; after the child has ended this process alone holds the
    // lock.
    if ((await runEffectHere(['take', '120'], { descriptors: [file.fd] })) !== 'done')
      throw new Error(`${path} stays locked by another process`)
    return await work()
  } finally {
    await file.close()
  }
}
