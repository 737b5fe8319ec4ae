import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** How files of a filesystem are copied: sharing their blocks, or byte by byte. */
export type CloneKind = 'reflink' | 'copy'

/** Probes the filesystem of a directory with a file of its own. Errors: the system's. */
export async function cloneKindOf(directory: string): Promise<CloneKind> {
  const probe = join(directory, `.probe-${randomUUID()}`)
  await writeFile(probe, Buffer.alloc(8192, 1))
  try {
    await copyFile(probe, `${probe}-clone`, constants.COPYFILE_FICLONE_FORCE)
    return 'reflink'
  } catch {
    return 'copy'
  } finally {
    await rm(probe, { force: true })
    await rm(`${probe}-clone`, { force: true })
  }
}
