import type { Db } from '../catalog/catalog.ts'
import { countWal } from '../catalog/consumption.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * Counts the WAL of a store up to now: from where it begins once it is made, and to its end before it is removed.
 * Repeatable; a store that is half removed has been counted.
 */
export async function countStoreWal(storage: Storage, tx: Db, storeId: string): Promise<void> {
  const position = await storage.walPosition({ id: storeId }).catch(() => undefined)
  if (position) await countWal(tx, new Map([[storeId, position]]))
}
