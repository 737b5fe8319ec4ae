/*
 * One reading of a project's events serves all streams of this process. A feed keeps the catalog snapshot up to which
 * it has read; each reading advances it and delivers one rendered text, with the new snapshot, to every live stream.
 * The feed then rests in proportion to its number of streams, so that changes in the meantime share one text. A joining
 * stream first reads the events between its own position and the feed's by itself, then goes live. A stream that is
 * slower than the events loses its queue, not events: it is behind, and reads the missed events from its position.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from '../catalog/catalog.ts'
import {
  eventsSince,
  OPERATION_EVENTS,
  type OperationEvent,
  type TransactionSnapshot,
  snapshotNow,
} from '../catalog/operation_event.ts'
import { withTimeout } from '../race.ts'
import { operationView } from '../views/operation.ts'

/** Heartbeat: shows the client and the proxies between that a silent connection is alive. */
const BEAT_MS = 15_000
/**
 * A text costs some 50 µs per stream: a project with constant changes must not block other requests of this process.
 */
const REST_MS_PER_STREAM = 1
/** Queued text per stream; the streams of a project share the strings. */
const MAX_QUEUED_CHARACTERS = 256 * 1024

export interface OperationFeeds {
  /**
   * Joins a project's events and resolves once the position is fixed: events committed from then on are delivered. The
   * generator yields texts of server-sent events, the last event of a batch with its `id`, and a comment after some
   * silence. It ends with `gone`. Errors: the catalog's.
   * @param from deliver the events that are not in this snapshot; without it, those committed from now on
   */
  join(projectId: string, from: TransactionSnapshot | undefined, gone: AbortSignal): Promise<AsyncGenerator<string>>
}

interface Batch {
  readonly text: string
  /** The position after the text. */
  readonly seen: TransactionSnapshot
}

interface Stream {
  queue: Batch[]
  characters: number
  /** The queue was dropped. */
  behind: boolean
  error: Error | undefined
  wake(): void
}

interface Feed {
  readonly projectId: string
  readonly streams: Set<Stream>
  seen: TransactionSnapshot | undefined
  reading: Promise<void>
  /** The reading after the current one. */
  next: Promise<void> | undefined
  /** By performance.now(). */
  restsUntil: number
  users: number
}

export async function createOperationFeeds(catalog: Catalog): Promise<OperationFeeds> {
  const feeds = new Map<string, Feed>()
  await catalog.listen(OPERATION_EVENTS, (projectId) => {
    const told = projectId === undefined ? [...feeds.values()] : [feeds.get(projectId)]
    for (const feed of told) if (feed) refresh(feed).catch((error: unknown) => fail(feed, error as Error))
  })

  /**
   * Resolves after a reading that began after this call; the current one may have begun too early. Callers share it.
   */
  function refresh(feed: Feed): Promise<void> {
    feed.next ??= feed.reading
      .catch(() => {})
      .then(() => {
        const rest = feed.restsUntil - performance.now()
        return rest > 1 ? sleep(rest) : undefined
      })
      .then(() => {
        feed.next = undefined
        feed.reading = read(feed)
        return feed.reading
      })
    return feed.next
  }

  async function read(feed: Feed): Promise<void> {
    if (feed.seen === undefined) {
      feed.seen = await snapshotNow(catalog)
      return
    }
    const texts: string[] = []
    let seen = feed.seen
    for await (const page of eventsSince(catalog, feed.projectId, feed.seen)) {
      seen = page.seen ?? seen
      if (page.events.length > 0) texts.push(render(page.events))
    }
    feed.seen = seen
    if (texts.length === 0) return
    const batch = { text: texts.join('\n\n') + idOf(seen), seen }
    for (const stream of feed.streams) deliver(stream, batch)
    feed.restsUntil = performance.now() + feed.streams.size * REST_MS_PER_STREAM
  }

  function enter(projectId: string): { feed: Feed; leave: () => void } {
    const feed = feeds.get(projectId) ?? newFeed(projectId)
    feeds.set(projectId, feed)
    feed.users++
    let left = false
    const leave = (): void => {
      if (left) return
      left = true
      feed.users--
      if (feed.users === 0) feeds.delete(projectId)
    }
    return { feed, leave }
  }

  return {
    async join(projectId, from, gone) {
      const { feed, leave } = enter(projectId)
      const stream = newStream()
      const end = (): void => {
        feed.streams.delete(stream)
        leave()
        stream.wake()
      }
      // The generator may never be started, so `gone` must end the membership too.
      gone.addEventListener('abort', end, { once: true })
      try {
        // The position of a client is older than a reading that begins now.
        await refresh(feed)
      } catch (error) {
        end()
        throw error
      }
      const upTo = feed.seen as TransactionSnapshot
      if (!gone.aborted) feed.streams.add(stream)
      else end()
      return follow(feed, stream, { from: from ?? upTo, upTo, gone, end })
    },
  }

  async function* follow(
    feed: Feed,
    stream: Stream,
    {
      from,
      upTo,
      gone,
      end,
    }: { from: TransactionSnapshot; upTo: TransactionSnapshot; gone: AbortSignal; end: () => void },
  ): AsyncGenerator<string> {
    let [place, to] = [from, upTo]
    try {
      for (;;) {
        if (place !== to)
          for await (const page of eventsSince(catalog, feed.projectId, place, to)) {
            place = page.seen ?? place
            if (page.events.length > 0) yield render(page.events) + (page.seen === undefined ? '\n\n' : idOf(place))
          }
        while (!stream.behind) {
          if (gone.aborted) return
          if (stream.error) throw stream.error
          const batch = stream.queue.shift()
          if (batch) {
            stream.characters -= batch.text.length
            yield batch.text
            place = batch.seen
          } else if ((await pause(stream)) === 'silent') yield ': \n\n'
        }
        stream.behind = false
        to = feed.seen as TransactionSnapshot
      }
    } finally {
      end()
    }
  }
}

const newFeed = (projectId: string): Feed => ({
  projectId,
  streams: new Set(),
  seen: undefined,
  reading: Promise.resolve(),
  next: undefined,
  restsUntil: 0,
  users: 0,
})

const newStream = (): Stream => ({ queue: [], characters: 0, behind: false, error: undefined, wake() {} })

function deliver(stream: Stream, batch: Batch): void {
  if (stream.behind) return
  if (stream.queue.length > 0 && stream.characters + batch.text.length > MAX_QUEUED_CHARACTERS) {
    stream.behind = true
    stream.queue = []
    stream.characters = 0
  } else {
    stream.queue.push(batch)
    stream.characters += batch.text.length
  }
  stream.wake()
}

/** Ends the streams of a feed that cannot be read: their clients resume from their last event id. */
function fail(feed: Feed, error: Error): void {
  for (const stream of feed.streams) {
    stream.error = error
    stream.wake()
  }
}

/** Waits for the next event, for BEAT_MS at most. */
function pause(stream: Stream): Promise<'woken' | 'silent'> {
  const { promise, resolve } = Promise.withResolvers<'woken'>()
  stream.wake = () => resolve('woken')
  return withTimeout(promise, BEAT_MS, 'silent')
}

const render = (events: readonly OperationEvent[]): string =>
  events
    .map((event) => `event: operation\ndata: ${JSON.stringify({ operation: operationView(event, event.updated_at) })}`)
    .join('\n\n')

/** The event id to resume from: the time of the reading, and the position after it. */
const idOf = (seen: TransactionSnapshot): string => `\nid: ${Math.floor(Date.now() / 1000)}-${seen}\n\n`
