import { listSpaceDue, recordSpace } from '../catalog/space.ts'
import type { WorkerContext } from '../context.ts'
import { createEventLoop } from '../event_loop.ts'
import type { Loop } from './periodic.ts'

const EVERY_MS = 10_000
/** A pass is followed by this many times its own duration without one: it takes a fifth of a core itself. */
const REST = 4

/**
 * Measures the blocks of this host's stores, and those that each has alone, project by project, once stores have
 * changed. A pass reads the extents of all files of a project, so passes are the rarer, the longer they last.
 */
export function startSpaceLoop({ catalog, storage, hostId, log }: WorkerContext): Loop {
  const loop = createEventLoop({
    async look() {
      const projects = await listSpaceDue(catalog, hostId)
      const [first] = projects
      if (!first) return EVERY_MS
      const began = performance.now()
      await recordSpace(catalog, hostId, first.now, await storage.measureSpace(projects))
      return Math.max(EVERY_MS, REST * (performance.now() - began))
    },
    onError: (error) => log.warn({ err: error }, 'could not measure the space of stores'),
    retry: { firstMs: EVERY_MS, maxMs: 60 * EVERY_MS },
  })
  loop.wake()
  return loop
}
