/** The end of a store's WAL, the segment that is being written, as the repository keeps it. */
import { constants, zstdCompress, zstdDecompressSync } from 'node:zlib'
import { promisify } from 'node:util'
import { lsnText, segmentPosition, SEGMENT_BYTES } from '../postgres/wal.ts'
import type { Repository } from './repository.ts'

export interface WalEnd {
  readonly segment: string
  /** Up to where it holds WAL, rounded up to a page. */
  readonly lsn: string
  /** When it was read. RFC 3339. */
  readonly read_at: string
  readonly content: Buffer
}

const PAGE_BYTES = 8192
/** Where a page says its own position (xlog_internal.h). */
const POSITION_OFFSET = 8
const FASTEST = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }

const nameOf = (series: string, store: string): string => `neap/${series}/wal/${store}`

/** Replaces the end of the WAL of a store. Errors: BackupError. */
export async function pushWalEnd(repository: Repository, store: string, { content, ...facts }: WalEnd): Promise<void> {
  const compressed = await promisify(zstdCompress)(content, FASTEST)
  const head = Buffer.from(`${JSON.stringify(facts)}\n`)
  await repository.put(nameOf(repository.series, store), Buffer.concat([head, compressed]))
}

/** The end of the WAL of a store; undefined before the first push. Errors: BackupError, UsageError. */
export async function fetchWalEnd(repository: Repository, store: string): Promise<WalEnd | undefined> {
  const file = await repository.get(nameOf(repository.series, store))
  if (!file) return undefined
  const head = file.indexOf('\n')
  const facts = JSON.parse(file.subarray(0, head).toString('utf8')) as Omit<WalEnd, 'content'>
  return { ...facts, content: zstdDecompressSync(file.subarray(head + 1)) }
}

/** Removes the end of the WAL of a store. Errors: BackupError. */
export async function dropWalEnd(repository: Repository, store: string): Promise<void> {
  await repository.run(['repo-rm', nameOf(repository.series, store)])
}

/** The written pages of a segment. Those after them are empty, or of an earlier use of the file. */
export function writtenPages(segment: string, content: Buffer): { readonly content: Buffer; readonly lsn: string } {
  const start = segmentPosition(segment)
  let [written, unwritten] = [0, Math.floor(content.length / PAGE_BYTES)]
  while (written < unwritten) {
    const middle = (written + unwritten) >> 1
    const position = content.readBigUInt64LE(middle * PAGE_BYTES + POSITION_OFFSET)
    if (Number(position) === start + middle * PAGE_BYTES) written = middle + 1
    else unwritten = middle
  }
  const bytes = written * PAGE_BYTES
  return { content: content.subarray(0, bytes), lsn: lsnText(start + bytes) }
}

/** A whole segment, as Postgres reads it, of the pages that were written. */
export const wholeSegment = (content: Buffer): Buffer =>
  Buffer.concat([content, Buffer.alloc(SEGMENT_BYTES - content.length)])
