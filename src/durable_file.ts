import { randomBytes } from 'node:crypto'
import { link, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Returns the content of `path`; creates it with `content` and `mode` if it does not exist. Of racing processes, one
 * creates the file and all return its content. The file is never visible in part.
 */
export async function readOrCreate(
  path: string,
  mode: number,
  content: () => Promise<Buffer> | Buffer,
): Promise<Buffer> {
  const existing = await readIfExists(path)
  if (existing) return existing
  await viaTemporary(path, await content(), mode, async (temporary) => {
    await link(temporary, path).catch(unless('EEXIST'))
  })
  return readFile(path)
}

/** Replaces the file at `path` with `content`, atomically and durably. */
export async function replaceFile(path: string, mode: number, content: Buffer): Promise<void> {
  await viaTemporary(path, content, mode, (temporary) => rename(temporary, path))
}

/** Returns the content of `path`, or undefined if it does not exist. */
export async function readIfExists(path: string): Promise<Buffer | undefined> {
  return readFile(path).catch(unless('ENOENT'))
}

async function viaTemporary(path: string, content: Buffer, mode: number, place: (temporary: string) => Promise<void>) {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const file = await open(temporary, 'wx', mode)
    try {
      await file.writeFile(content)
      await file.chmod(mode)
      await file.sync()
    } finally {
      await file.close()
    }
    await place(temporary)
    await syncDirectory(dirname(path))
  } finally {
    await rm(temporary, { force: true })
  }
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

function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error
  }
}
