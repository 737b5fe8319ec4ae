import { type StepOutcome, watching } from '../engine/definition.ts'
import type { Storage, StoreRef } from '../storage/storage.ts'

/** Waits for the copy into a store, and says how far it is. */
export async function waitForCopy(storage: Storage, store: StoreRef, reason: string): Promise<StepOutcome> {
  const progress = await storage.readProgress(store)
  return watching(storage.filled(store), progress === undefined ? reason : `${reason}: ${progress}`)
}
