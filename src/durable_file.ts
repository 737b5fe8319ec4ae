import { randomBytes } from 'node:crypto'
import { link, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * The content of `path`, which is made with `content` and `mode` where it does not exist. Of processes that race, one makes
 * it and all return what that one wrote; nobody ever sees half of it.
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

/** Puts `content` at `path` in place of what is there, at once and on disk. */
export async function replaceFile(path: string, mode: number, content: Buffer): Promise<void> {
  await viaTemporary(path, content, mode, (temporary) => rename(temporary, path))
}

/** The content of `path`, or undefined where there is no such file. */
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
    await syncFolder(dirname(path))
  } finally {
    await rm(temporary, { force: true })
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error
  }
}
