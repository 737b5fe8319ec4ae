import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { readOrCreate } from '../durable_file.ts'
import { UsageError } from '../errors.ts'

/**
 * The id of this machine as a host: kept in its data directory, since it is the stores there that make it one. A data
 * directory that moves to another machine takes it along.
 */
export async function hostId(dataDir: string): Promise<string> {
  const file = await readOrCreate(join(dataDir, 'host'), 0o644, () =>
    Buffer.from(`host-${randomBytes(4).toString('hex')}\n`),
  )
  const id = file.toString('utf8').trim()
  if (!/^host-[0-9a-f]{8}$/.test(id))
    throw new UsageError(
      `${join(dataDir, 'host')} does not hold the id of a host, as host-1a2b3c4d. ` +
        'Write the one back that this data directory had (docs/operating.md), or remove the file for a new one.',
    )
  return id
}
