import { open } from 'node:fs/promises'
import { join } from 'node:path'

/** Where the position of the latest checkpoint stands in pg_control, of every version from 11 on (pg_control.h). */
const CHECKPOINT_OFFSET = 32

/**
 * The position in the WAL of the latest checkpoint of a data directory, as Postgres writes it ("0/3000028"): after a
 * clean stop that of all that was written. Errors: the system's.
 */
export async function checkpointPosition(pgdata: string): Promise<string> {
  const file = await open(join(pgdata, 'global/pg_control'))
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(8), 0, 8, CHECKPOINT_OFFSET)
    if (bytesRead < 8) throw new Error(`pg_control of ${pgdata} is cut short`)
    const position = buffer.readBigUInt64LE()
    return `${(position >> 32n).toString(16)}/${(position & 0xffff_ffffn).toString(16)}`.toUpperCase()
  } finally {
    await file.close()
  }
}
