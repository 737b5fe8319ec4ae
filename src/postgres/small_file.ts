import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

/**
 * Reads a file of a data directory, which code in a compute may have replaced; undefined if it does not exist. It
 * follows no link and waits for no FIFO. Errors: it is no regular file, or has more bytes.
 */
export async function readSmallFile(path: string, maxBytes: number): Promise<Buffer | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  })
  if (!file) return undefined
  try {
    if (!(await file.stat()).isFile()) throw new Error(`${path} is not a file`)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(maxBytes + 1), 0, maxBytes + 1, 0)
    if (bytesRead > maxBytes) throw new Error(`${path} has more than ${maxBytes} bytes`)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
