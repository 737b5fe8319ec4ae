import { open } from 'node:fs/promises'
import { runEffectHere } from '../backends/local/effect.ts'

/** A lock on a file that the kernel drops when this process ends, however it ends. */
export interface FileLock {
  readonly release: () => Promise<void>
}

/** Takes the lock on a file. Returns undefined when another process has it. */
export async function takeLock(path: string): Promise<FileLock | undefined> {
  const file = await open(path, 'a', 0o600)
  // The child locks the open file description that both share; after the child has ended this process alone holds the
  // lock.
  if ((await runEffectHere(['take', '1'], { descriptors: [file.fd] })) === 'done')
    return { release: () => file.close() }
  await file.close()
  return undefined
}
