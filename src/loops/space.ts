import { listSpaceStores, readSpaceDue, recordSpace } from '../catalog/space.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import type { Loop } from './periodic.ts'

const EVERY_MS = 10_000
/** A pass is followed by this many times its own duration without one: it takes a fifth of a core itself. */
const REST = 4

/**
 * Measures the blocks of this host's stores, and those that each has alone, once stores have changed. A pass reads the
 * extents of all files, so passes are the rarer, the longer they last.
 */
export function startSpaceLoop({ catalog, storage, hostId, log }: WorkerContext): Loop {
  /** The number of stores at the last pass: a removal changes which blocks the others have alone. */
  let measured: number | undefined
  const loop = createEventLoop({
    async look() {
      const due = await readSpaceDue(catalog, hostId)
      if (!due || (!due.is_due && due.stores === measured)) return EVERY_MS
      const began = performance.now()
      await recordSpace(catalog, hostId, due.now, await storage.measureSpace(await listSpaceStores(catalog, hostId)))
      measured = due.stores
      return Math.max(EVERY_MS, REST * (performance.now() - began))
    },
    onError: (error) => log.warn({ err: error }, 'could not measure the space of stores'),
    retry: { firstMs: EVERY_MS, maxMs: 60 * EVERY_MS },
  })
  loop.wake()
  return loop
}
