/*
 * The bytes that a server gets for a chunk of its client: the chunk itself if no message in it is replaced, which needs
 * no copy, or else the parts that stay and the replacements between them.
 */

/** Replaces the bytes from the beginning of the message to `end`; the bytes after `end` stay as they came. */
export type Replace = (end: number, ...by: Buffer[]) => void

export interface Rewrite {
  /** The chunk. */
  bytes: Buffer
  /** Offset up to which its messages have been examined. */
  examined: number
  /** Offset from which on its bytes are not in `pieces`. */
  copied: number
  pieces: Buffer[]
}

const NONE = Buffer.alloc(0)

export const createRewrite = (): Rewrite => ({ bytes: NONE, examined: 0, copied: 0, pieces: [] })

/** @param examined offset of the first message in the chunk that is to be examined */
export function beginRewrite(rewrite: Rewrite, bytes: Buffer, examined: number): void {
  rewrite.bytes = bytes
  rewrite.examined = examined
  rewrite.copied = 0
}

/** Replaces the bytes from the message being examined to `end`. */
export function replaceUpTo(rewrite: Rewrite, end: number, by: readonly Buffer[]): void {
  const { bytes, examined, copied, pieces } = rewrite
  if (examined > copied) pieces.push(bytes.subarray(copied, examined))
  pieces.push(...by)
  rewrite.copied = end
}

/** The bytes to send for the chunk up to `until`; may be empty. */
export function endRewrite(rewrite: Rewrite, until: number): Buffer {
  const { bytes, copied, pieces } = rewrite
  rewrite.bytes = NONE
  if (pieces.length === 0 && copied === 0 && until === bytes.length) return bytes
  if (until > copied) pieces.push(bytes.subarray(copied, until))
  if (pieces.length === 0) return NONE
  rewrite.pieces = []
  return pieces.length === 1 ? (pieces[0] ?? NONE) : Buffer.concat(pieces)
}
