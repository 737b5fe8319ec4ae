/*
 * One reading of a project's events serves all streams of this process. A feed knows the snapshot of the catalog up to which it has read; each
 * reading advances it and hands one rendered text, with the snapshot after it, to every live stream. After that it rests in proportion to
 * its streams: what changes meanwhile comes in one text. A stream joins behind: it reads what lies between its own place and the feed's
 * by itself, then goes on live. A stream that reads more slowly than events come loses its queue, not events: it is behind again, and
 * reads from its place what it has missed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from '../catalog/catalog.ts'
import {
  eventsSince,
  OPERATION_EVENTS,
  type OperationEvent,
  type Snapshot,
  snapshotNow,
} from '../catalog/operation_event.ts'
import { operationView } from '../views/operation.ts'

/** A silent connection must be known to be alive, by the client and by proxies between. */
const BEAT_MS = 15_000
/** A text costs some 50 µs for each stream: a project whose operations change all the time must not keep this process from other requests. */
const REST_MS_PER_STREAM = 1
/** Text that is kept for one stream; the text itself is shared by all streams of the project. */
const MAX_QUEUED_CHARACTERS = 256 * 1024

export interface OperationFeeds {
  /**
   * Joins a project's events, and answers once the place is certain: what is committed from then on is delivered. The generator yields
   * texts of server-sent events, the last of those that came together with its `id`, and a comment where nothing has come for a while.
   * It ends with `gone`. Errors: the catalog's.
   * @param from deliver what is not in this snapshot; without it, what is committed from now on
   */
  join(projectId: string, from: Snapshot | undefined, gone: AbortSignal): Promise<AsyncGenerator<string>>
}

interface Batch {
  readonly text: string
  /** The place after it. */
  readonly seen: Snapshot
}

interface Stream {
  queue: Batch[]
  characters: number
  /** Its queue was dropped. */
  behind: boolean
  error: Error | undefined
  wake(): void
}

interface Feed {
  readonly projectId: string
  readonly streams: Set<Stream>
  seen: Snapshot | undefined
  reading: Promise<void>
  /** The reading after the one that is under way. */
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

  /** Resolves after a reading that began after this call: one that is under way may have begun too early. Many callers share it. */
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
      // The generator may never be started, so that leaving cannot be left to it.
      gone.addEventListener('abort', end, { once: true })
      try {
        // The place of a client is in the past of a reading that begins now.
        await refresh(feed)
      } catch (error) {
        end()
        throw error
      }
      const upTo = feed.seen as Snapshot
      if (!gone.aborted) feed.streams.add(stream)
      else end()
      return follow(feed, stream, { from: from ?? upTo, upTo, gone, end })
    },
  }

  async function* follow(
    feed: Feed,
    stream: Stream,
    { from, upTo, gone, end }: { from: Snapshot; upTo: Snapshot; gone: AbortSignal; end: () => void },
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
        to = feed.seen as Snapshot
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

/** Ends the streams of a feed that cannot be read: their clients go on from where they were. */
function fail(feed: Feed, error: Error): void {
  for (const stream of feed.streams) {
    stream.error = error
    stream.wake()
  }
}

/** Waits for the next event, up to a time-out. */
async function pause(stream: Stream): Promise<'woken' | 'silent'> {
  const { promise, resolve } = Promise.withResolvers<'woken' | 'silent'>()
  stream.wake = () => resolve('woken')
  const timer = setTimeout(() => resolve('silent'), BEAT_MS)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}

const render = (events: readonly OperationEvent[]): string =>
  events
    .map((event) => `event: operation\ndata: ${JSON.stringify({ operation: operationView(event, event.updated_at) })}`)
    .join('\n\n')

/** Where a client goes on from: when the events were read, and the place after them. */
const idOf = (seen: Snapshot): string => `\nid: ${Math.floor(Date.now() / 1000)}-${seen}\n\n`
