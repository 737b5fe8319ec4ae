import { stat } from 'node:fs/promises'
import { readIfExists } from '../durable_file.ts'
import { messageOf, UsageError } from '../errors.ts'

/**
 * The bytes of a file that only its owner may read. Returns undefined when there is no such file. Errors: UsageError
 * (others may access it, or it cannot be read).
 */
export async function readKeyFile(file: string): Promise<Buffer | undefined> {
  try {
    const bytes = await readIfExists(file)
    if (bytes && ((await stat(file)).mode & 0o077) !== 0)
      throw new UsageError(`The key file ${file} is open to others: run chmod 600 ${file}`)
    return bytes
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`The key file ${file} cannot be read: ${messageOf(error)}`)
  }
}

/** Keys as JSON, in which bytes are `{"bytes": <base64>}`. */
export function encodeKeys(keys: object): Buffer {
  const asText = (_name: string, value: unknown): unknown =>
    value !== null && typeof value === 'object' && 'type' in value && 'data' in value
      ? { bytes: Buffer.from(value.data as number[]).toString('base64') }
      : value
  return Buffer.from(`${JSON.stringify(keys, asText, 2)}\n`)
}

/** Returns undefined when the bytes are no such JSON. */
export function decodeKeys<T>(bytes: Buffer): Partial<T> | undefined {
  const asBytes = (_name: string, value: unknown): unknown =>
    value !== null && typeof value === 'object' && 'bytes' in value ? Buffer.from(String(value.bytes), 'base64') : value
  try {
    return JSON.parse(bytes.toString(), asBytes) as Partial<T>
  } catch {
    return undefined
  }
}
