import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Writes a path's whole filesystem to the disk: for a thousand new files one call instead of a thousand. */
export async function syncFilesystem(path: string): Promise<void> {
  await promisify(execFile)('sync', process.platform === 'linux' ? ['-f', path] : [])
}
