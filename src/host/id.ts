import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { readOrCreate } from '../durable_file.ts'

/**
 * The id of this machine as a host: kept in its data directory, since it is the stores there that make it one. A data
 * directory that moves to another machine takes it along.
 */
export async function hostId(dataDir: string): Promise<string> {
  const file = await readOrCreate(join(dataDir, 'host'), 0o644, () =>
    Buffer.from(`host-${randomBytes(4).toString('hex')}\n`),
  )
  return file.toString('utf8').trim()
}
