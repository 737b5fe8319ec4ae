import { closeSync, constants, fchownSync, ftruncateSync, openSync, readSync, type Stats, writeSync } from 'node:fs'
import type { CopyTarget, Source } from './copy_tree.ts'

const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants

const BUFFER = Buffer.allocUnsafe(2 ** 20)
const ZEROS = Buffer.alloc(BUFFER.length)
/** Of most filesystems. */
const BLOCK_BYTES = 4096

/**
 * Copies a file byte by byte. Code in a compute may have made it: parts of it without blocks have no blocks in the copy
 * either, and a second name of a file is refused. It is copied to its present end, since it may grow for ever; the WAL
 * has the rest.
 * @param zeros the length of pieces that are left out where they are zeros; without it a file that has all its blocks
 *   has them in the copy too, as Postgres relies on for its WAL
 * Errors: the copy has more bytes than it has room.
 */
export function copyContent(source: Source, found: Stats, path: string, target: CopyTarget, zeros = Infinity): void {
  requireOneName(found, target)
  // Not copyFileSync: it truncates, which makes ext4 start writing each file at its close, and sets attributes that are
  // set again here.
  const file = openSync(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600)
  try {
    if (target.owner) fchownSync(file, target.owner.uid, target.owner.gid)
    const piece = found.blocks * 512 < found.size ? BLOCK_BYTES : zeros
    let position = 0
    for (let length; (length = readPart(source.file, found.size - position)) > 0; position += length) {
      target.room -= length
      if (target.room < 0) throw new Error('no space left on device: the parent has grown while it was copied')
      writeParts(file, position, length, piece)
      target.copied(length)
    }
    ftruncateSync(file, position)
  } finally {
    closeSync(file)
  }
}

const readPart = (file: number, left: number): number => readSync(file, BUFFER, 0, Math.min(BUFFER.length, left), null)

/** Writes what was read last, but for pieces that are zeros. */
function writeParts(file: number, position: number, length: number, piece: number): void {
  const isZeros = (at: number) => {
    if (piece === Infinity) return false
    const size = Math.min(piece, length - at)
    return BUFFER.compare(ZEROS, 0, size, at, at + size) === 0
  }
  for (let at = 0; at < length; at += piece) {
    const first = at
    while (at < length && !isZeros(at)) at += piece
    const end = Math.min(at, length)
    for (let written = first; written < end;)
      written += writeSync(file, BUFFER, written, end - written, position + written)
  }
}

function requireOneName({ nlink, ino }: Stats, { linked }: CopyTarget): void {
  if (nlink < 2) return
  if (linked.has(ino)) throw new Error('The parent has a file with several names: a branch cannot be made of it.')
  linked.add(ino)
}
