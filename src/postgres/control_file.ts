import { constants, readSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'

/** The bytes of pg_control (pg_control.h, PG_CONTROL_FILE_SIZE). */
const CONTROL_FILE_BYTES = 8192

/** Where the position of the latest checkpoint stands in pg_control, of every version from 11 on (pg_control.h). */
const CHECKPOINT_OFFSET = 32

/** Reads an open control file, and no more of it than Postgres writes: its server's user may have made it any size. */
export function readControlFile(file: number): Buffer {
  const buffer = Buffer.alloc(CONTROL_FILE_BYTES)
  return buffer.subarray(0, readSync(file, buffer, 0, CONTROL_FILE_BYTES, 0))
}

/**
 * The position in the WAL of the latest checkpoint of a data directory, as Postgres writes it ("0/3000028"): after a
 * clean stop that of all that was written. Reads only a regular file: the server's own user can write there, and a FIFO
 * would block this process. Errors: the system's.
 */
export async function checkpointPosition(pgdata: string): Promise<string> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(join(pgdata, 'global/pg_control'), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new Error(`pg_control of ${pgdata} is not a file`)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(8), 0, 8, CHECKPOINT_OFFSET)
    if (bytesRead < 8) throw new Error(`pg_control of ${pgdata} is cut short`)
    const position = buffer.readBigUInt64LE()
    return `${(position >> 32n).toString(16)}/${(position & 0xffff_ffffn).toString(16)}`.toUpperCase()
  } finally {
    await file.close()
  }
}
