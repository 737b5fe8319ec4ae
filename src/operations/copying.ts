import { type StepOutcome, waitUntil } from '../engine/definition.ts'
import type { Storage, StoreRef } from '../storage/storage.ts'

/**
 * Waits for the copy into a store, and says how far it is. That puts off no deadline: a copy that begins anew each time
 * would never be over its time.
 */
export async function waitForCopy(storage: Storage, store: StoreRef, reason: string): Promise<StepOutcome> {
  const progress = await storage.readProgress(store)
  return waitUntil(storage.filled(store), progress === undefined ? reason : `${reason}: ${progress}`)
}
