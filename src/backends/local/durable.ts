import { execFile } from 'node:child_process'
import { open } from 'node:fs/promises'
import { promisify } from 'node:util'
import { runEffectHere } from './effect.ts'

/** Writes everything on the filesystem of a path to the disk: for a thousand new files one call instead of a thousand. */
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
  // A kernel lock can be taken by any user who may open the file, to read it even.
  const file = await open(path, 'a', 0o600)
  try {
    // The child locks the open file that both share; when it has ended the lock is this process' own.
    if ((await runEffectHere(['take', '120'], { descriptors: [file.fd] })) !== 'done')
      throw new Error(`${path} stays locked by another process`)
    return await work()
  } finally {
    await file.close()
  }
}
