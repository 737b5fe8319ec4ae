import {
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  readdirSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { BaseBackup } from '../postgres/base_backup.ts'
import { isWalSegment } from '../postgres/data_directory.ts'
import { type CopyTarget, copyOne, openBelow, openPath, type Source } from './copy_tree.ts'

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants

const CHUNK_BYTES = 2 ** 16
const CHUNK = Buffer.allocUnsafe(CHUNK_BYTES)
const ZEROS = Buffer.alloc(CHUNK_BYTES)

/** Copies the WAL that a backup needs. */
export function copyWal(source: Source, target: CopyTarget, { first, last }: Pick<BaseBackup, 'first' | 'last'>): void {
  const wal = openBelow(source, 'pg_wal')
  if (!wal) throw new Error('the parent has no pg_wal')
  try {
    const wanted = readdirSync(openPath(wal)).filter((name) => isWalSegment(name) && name >= first && name <= last)
    if (!wanted.includes(first) || !wanted.includes(last)) throw new Error('the parent removed WAL that the copy needs')
    for (const name of wanted) {
      if (target.reflink) copyOne(wal, name, target, `pg_wal/${name}`)
      else copySegment(wal, name, target)
    }
  } finally {
    closeSync(wal.file)
  }
}

/**
 * Copies a segment without its zeros. Each backup ends a segment early, and Postgres fills the rest with zeros, which
 * would take most of the space of a small branch.
 */
function copySegment(wal: Source, name: string, { path, owner }: CopyTarget): void {
  const opened = openBelow(wal, name)
  if (!opened) return
  const copy = openSync(join(path, 'pg_wal', name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    if (!fstatSync(opened.file).isFile()) throw new Error(`the parent's WAL ${name} is not a file`)
    if (owner) fchownSync(copy, owner.uid, owner.gid)
    let position = 0
    for (let length; (length = readSync(opened.file, CHUNK)) > 0; position += length) {
      const isEmpty = CHUNK.compare(ZEROS, 0, length, 0, length) === 0
      for (let written = isEmpty ? length : 0; written < length;)
        written += writeSync(copy, CHUNK, written, length - written, position + written)
    }
    ftruncateSync(copy, position)
  } finally {
    closeSync(copy)
    closeSync(opened.file)
  }
}
