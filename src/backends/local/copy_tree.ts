import { closeSync, constants, copyFileSync, fstatSync, lchownSync, mkdirSync, openSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Owner } from './layout.ts'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, COPYFILE_FICLONE } = constants

/** A directory that is open, and what gives its files new owners. Names below it are looked up from there, never from the root. */
export interface Source {
  readonly file: number
  readonly path: string
}

export function openDirectory(path: string): Source {
  return { file: openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), path }
}

/**
 * Copies what a directory holds, by reference where the filesystem can. `skip` is asked with each path from the top.
 *
 * The tree may belong to a server that was taken over while root copies it. So every name is opened without following links and from the
 * open directory that holds it: what is copied is what lies in the tree. Files that vanish meanwhile are fine, torn pages too: the
 * backup protocol mends both.
 */
export function copyTree(source: Source, target: string, owner: Owner | undefined, skip: (path: string) => boolean, prefix = ''): void {
  for (const entry of readdirSync(openPath(source), { withFileTypes: true })) {
    const path = prefix + entry.name
    if (skip(path)) continue
    if (entry.isDirectory()) {
      const below = openBelow(source, entry.name, O_DIRECTORY)
      if (!below) continue
      try {
        makeDirectory(join(target, path), owner)
        copyTree(below, target, owner, skip, `${path}/`)
      } finally {
        closeSync(below.file)
      }
    } else if (entry.isFile()) {
      copyOne(source, entry.name, join(target, path), owner)
    }
  }
}

export function copyOne(source: Source, name: string, target: string, owner: Owner | undefined): void {
  const opened = openBelow(source, name, 0)
  if (!opened) return
  try {
    if (!fstatSync(opened.file).isFile()) return
    copyFileSync(openPath(opened), target, COPYFILE_FICLONE)
    if (owner) lchownSync(target, owner.uid, owner.gid)
  } finally {
    closeSync(opened.file)
  }
}

export function makeDirectory(path: string, owner: Owner | undefined): void {
  mkdirSync(path, { mode: 0o700 })
  if (owner) lchownSync(path, owner.uid, owner.gid)
}

/** Opens a name in an open directory; `undefined` when it is gone or is a link. */
export function openBelow(source: Source, name: string, flags: number): Source | undefined {
  const path = join(openPath(source), name)
  try {
    return { file: openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | flags), path: join(source.path, name) }
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

/** Where Linux keeps what a descriptor has open; other systems make do with the path. */
export function openPath(source: Source): string {
  return process.platform === 'linux' ? `/proc/self/fd/${source.file}` : source.path
}
