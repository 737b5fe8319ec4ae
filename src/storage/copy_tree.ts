import { closeSync, constants, copyFileSync, fstatSync, lchownSync, mkdirSync, openSync, readdirSync } from 'node:fs'
import { copyFile, lchown } from 'node:fs/promises'
import { join } from 'node:path'
import type { Owner } from '../host/layout.ts'
import { type ClonePool, clonePool } from './clone_pool.ts'
import { copyContent } from './copy_content.ts'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

/** An open file or directory. Names below it are resolved relative to it, never from the root. */
export interface Source {
  readonly file: number
  readonly path: string
}

/** The directory that copies are written to, and the owner that they get. */
export interface CopyTarget {
  readonly path: string
  readonly owner: Owner | undefined
  /** Whether the filesystem shares blocks between files: assumed until a clone fails. */
  reflink: boolean
  /** Called with the bytes of each part that is copied. */
  readonly copied: (bytes: number) => void
  /** Whether a clone has succeeded. */
  isCloning?: boolean
  /** The bytes that a copy byte by byte may yet have. */
  room: number
  /** The inodes of copied files that have several names. */
  readonly linked: Set<number>
}

/** Bounds of a file that is copied. */
interface CopyBounds {
  /** A larger file is refused. */
  readonly most?: number
  /** The length of pieces that are left out where they are zeros. */
  readonly zeros?: number
}

export function openDirectory(path: string): Source {
  return { file: openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), path }
}

/**
 * Copies a directory's entries recursively, by reflink where the filesystem can. `skip` receives each path relative to
 * the top.
 *
 * The tree may belong to a compromised server while root copies it. So every name is opened without following links and
 * relative to the open directory that holds it: only files of the tree are copied. Files that vanish meanwhile are
 * fine, torn pages too: recovery repairs both.
 */
export async function copyTree(source: Source, target: CopyTarget, skip: (path: string) => boolean): Promise<void> {
  const pool = clonePool()
  try {
    await copyBelow(source, target, skip, '', pool)
  } finally {
    await pool.drain()
  }
}

async function copyBelow(
  source: Source,
  target: CopyTarget,
  skip: (path: string) => boolean,
  prefix: string,
  pool: ClonePool,
): Promise<void> {
  for (const entry of readdirSync(openPath(source), { withFileTypes: true })) {
    const path = prefix + entry.name
    if (skip(path)) continue
    if (entry.isFile()) {
      if (target.isCloning) await pool.add(() => cloneOne(source, entry.name, target, path))
      else copyOne(source, entry.name, target, path)
    }
    if (!entry.isDirectory()) continue
    const below = openBelow(source, entry.name, O_DIRECTORY)
    if (!below) continue
    try {
      makeDirectory(join(target.path, path), target.owner)
      await copyBelow(below, target, skip, `${path}/`, pool)
    } finally {
      closeSync(below.file)
    }
  }
}

/**
 * Copies one file of an open directory to a path in the target. Returns whether it was there. Errors: it is too large,
 * and those of copyContent.
 */
export function copyOne(
  source: Source,
  name: string,
  target: CopyTarget,
  path: string,
  { most = Infinity, zeros }: CopyBounds = {},
): boolean {
  const opened = openBelow(source, name)
  if (!opened) return false
  try {
    const found = fstatSync(opened.file)
    if (!found.isFile()) return false
    if (found.size > most) throw new Error(`The parent's ${path} has more than ${most} bytes.`)
    const copy = join(target.path, path)
    target.reflink &&= isCloned(opened, copy, target.owner)
    target.isCloning = target.reflink
    if (target.reflink) target.copied(found.size)
    else copyContent(opened, found, copy, target, zeros)
    return true
  } finally {
    closeSync(opened.file)
  }
}

/** As `copyOne`, on a filesystem that has cloned a file, without blocking this thread. */
async function cloneOne(source: Source, name: string, target: CopyTarget, path: string): Promise<void> {
  const opened = openBelow(source, name)
  if (!opened) return
  try {
    const found = fstatSync(opened.file)
    if (!found.isFile()) return
    const copy = join(target.path, path)
    await copyFile(openPath(opened), copy, constants.COPYFILE_FICLONE_FORCE)
    if (target.owner) await lchown(copy, target.owner.uid, target.owner.gid)
    target.copied(found.size)
  } catch (error) {
    // Files of one filesystem may differ, as those without copy-on-write on Btrfs.
    if (!UNCLONABLE.has(codeOf(error))) throw error
    target.reflink = target.isCloning = false
    copyContent(opened, fstatSync(opened.file), join(target.path, path), target)
  } finally {
    closeSync(opened.file)
  }
}

const UNCLONABLE = new Set(['ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'ENOTTY', 'EINVAL', 'EXDEV'])

function isCloned(source: Source, copy: string, owner: Owner | undefined): boolean {
  try {
    copyFileSync(openPath(source), copy, constants.COPYFILE_FICLONE_FORCE)
  } catch (error) {
    if (UNCLONABLE.has(codeOf(error))) return false
    throw error
  }
  if (owner) lchownSync(copy, owner.uid, owner.gid)
  return true
}

export function makeDirectory(path: string, owner: Owner | undefined): void {
  mkdirSync(path, { mode: 0o700 })
  if (owner) lchownSync(path, owner.uid, owner.gid)
}

/** Opens a name in an open directory. Returns undefined when it is absent or a link. */
export function openBelow(source: Source, name: string, flags = 0): Source | undefined {
  const path = join(openPath(source), name)
  try {
    return { file: openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | flags), path: join(source.path, name) }
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes(codeOf(error))) return undefined
    throw error
  }
}

/** The /proc path of an open descriptor on Linux; the plain path on other systems. */
export function openPath(source: Source): string {
  return process.platform === 'linux' ? `/proc/self/fd/${source.file}` : source.path
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? ''
}
