import type { Endpoint } from '../../catalog/endpoint.ts'
import { ERROR_RESPONSE } from '../wire/message_types.ts'
import { createReader, type Reader } from '../wire/reader.ts'
import { encodeFields, errorFields, MESSAGE_HEAD } from '../wire/messages.ts'

type WritesRefused = NonNullable<Endpoint['writes_refused']>

/** SQLSTATE of a write in a read-only transaction, and of a full disk (Postgres manual, "PostgreSQL Error Codes"). */
const READ_ONLY = '25006'
const DISK_FULL = '53100'

const REFUSALS: Readonly<Record<WritesRefused, { readonly text: string; readonly hint: string }>> = {
  branch_size: {
    text: 'the branch is larger than the limit of its project',
    hint:
      'Delete data in a transaction that begins with BEGIN READ WRITE, and run VACUUM FULL; ' +
      'or raise the project setting quota.logical_size_bytes.',
  },
  host_disk: {
    text: 'the disk of its host is almost full',
    hint: 'Delete data in a transaction that begins with BEGIN READ WRITE, or make room on the disk of the host.',
  },
}

/**
 * Inserts the error that replaces an ErrorResponse with this body. Returns false for errors other than that of a
 * read-only transaction, and while the compute accepts writes.
 */
export function insertWriteError(reader: Reader, why: WritesRefused | null | undefined, body: Buffer): boolean {
  if (!why) return false
  const fields = errorFields(body)
  if (fields.get('C') !== READ_ONLY) return false
  const { text, hint } = REFUSALS[why]
  reader.insert(encodeFields('ERROR', DISK_FULL, `${fields.get('M')}: ${text}`, undefined, hint))
  return true
}

/**
 * Reads the messages of a compute that refuses writes, and replaces the errors of refused writes.
 * @param why null once it accepts writes again
 * @param invalid called when bytes cannot be a message
 */
export function createWriteErrorReader(
  why: () => WritesRefused | null | undefined,
  forward: (bytes: Buffer) => void,
  invalid: () => void,
): Reader {
  const reader = createReader(
    (type, bytes, at, end) =>
      type !== ERROR_RESPONSE || !insertWriteError(reader, why(), bytes.subarray(at + MESSAGE_HEAD, end)),
    forward,
    invalid,
  )
  return reader
}
