import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { type EndpointPause, listPaused, readPauses } from '../../catalog/proxy.ts'

const RETRY_MS = 250

/** Reads the pause states of endpoints from the catalog. Reads one batch at a time, so the last read is the newest. */
export interface PauseReader {
  /** Resolves when the endpoint's row has been read and applied. Retries while the catalog is away. */
  read(endpointId: string): Promise<void>
  /** As `read`, for all endpoints that are paused or refuse writes, in the catalog or at this proxy. */
  readAll(): Promise<void>
  stop(): void
}

export function createPauseReader(options: {
  catalog: Catalog
  /** The ids of the endpoints that are paused, or refuse writes, at this proxy. */
  pausedHere: () => Iterable<string>
  /** Called with each row. undefined when the endpoint's row is gone. */
  apply: (endpointId: string, row: EndpointPause | undefined) => void
  log: Logger
}): PauseReader {
  const { catalog, pausedHere, apply, log } = options
  const unread = new Set<string>()
  let allUnread = false
  let reading: Promise<void> = Promise.resolve()
  let queued: Promise<void> | undefined
  let stopped = false

  /** Resolves when the rows unread at the call have been read and applied. */
  function readQueued(): Promise<void> {
    if (!queued) {
      queued = reading.then(() => {
        queued = undefined
        return readUnread()
      })
      reading = queued
    }
    return queued
  }

  async function readUnread(): Promise<void> {
    const all = allUnread
    const ids = new Set(unread)
    allUnread = false
    unread.clear()
    while (!stopped) {
      try {
        if (all) for (const id of [...(await listPaused(catalog)), ...pausedHere()]) ids.add(id)
        const rows = new Map((await readPauses(catalog, [...ids])).map((row) => [row.id, row]))
        for (const id of ids) apply(id, rows.get(id))
        return
      } catch (error) {
        log.debug({ err: error }, 'could not read which endpoints are paused')
        await sleep(RETRY_MS)
      }
    }
  }

  return {
    read(endpointId) {
      unread.add(endpointId)
      return readQueued()
    },
    readAll() {
      allUnread = true
      return readQueued()
    },
    stop() {
      stopped = true
    },
  }
}
