import type pg from 'pg'

/**
 * Called with the payload of a notification, or with undefined when notifications may have been lost: then look at
 * everything.
 */
export type Told = (payload: string | undefined) => void

export interface CatalogListener {
  /** Subscribes to a channel. Resolves when no later notification can be missed. The result unsubscribes. */
  listen(channel: string, told: Told): Promise<() => void>
  /** Sets the application name of its session. */
  rename(to: string): Promise<void>
  /** Whether it is connected; true before the first subscription. */
  hears(): boolean
  close(): Promise<void>
}

const RECONNECT_MS = 250

const named = (name: string) => ({ text: `select set_config('application_name', $1, false)`, values: [name] })

/** LISTEN on one connection for all channels, opened at first use and reopened when it is lost. */
export function createListener(newSession: () => Promise<pg.Client>, onError: (error: Error) => void): CatalogListener {
  const channels = new Map<string, Set<Told>>()
  let connected: Promise<pg.Client> | undefined
  let retry: NodeJS.Timeout | undefined
  let hears = false
  let closed = false
  let name: string | undefined

  function connect(): Promise<pg.Client> {
    connected ??= open().catch((error: unknown) => {
      connected = undefined
      again()
      throw error
    })
    return connected
  }

  async function open(): Promise<pg.Client> {
    const client = await newSession()
    client.on('notification', ({ channel, payload }) => {
      for (const told of channels.get(channel) ?? []) told(payload)
    })
    try {
      if (name !== undefined) await client.query(named(name))
      for (const channel of channels.keys()) await client.query(`listen ${channel}`)
    } catch (error) {
      // A standby refuses LISTEN: without this each attempt would leave a session.
      void client.end().catch(() => undefined)
      throw error
    }
    client.once('end', () => {
      hears = false
      connected = undefined
      again()
    })
    hears = true
    return client
  }

  function again(): void {
    if (closed || retry) return
    retry = setTimeout(() => {
      retry = undefined
      connect().then(() => {
        for (const subscribers of channels.values()) for (const told of subscribers) told(undefined)
      }, onError)
    }, RECONNECT_MS)
  }

  return {
    async listen(channel, told) {
      const subscribers = channels.get(channel) ?? new Set()
      channels.set(channel, subscribers.add(told))
      const unlisten = () => void subscribers.delete(told)
      try {
        // An attempt begun earlier may fail for a cause that no longer exists: connect again then.
        const client = (await connected?.catch(() => undefined)) ?? (await connect())
        await client.query(`listen ${channel}`)
        return unlisten
      } catch (error) {
        unlisten()
        throw error
      }
    },
    async rename(to) {
      name = to
      const client = await connected?.catch(() => undefined)
      await client?.query(named(to))
    },
    hears: () => hears || channels.size === 0,
    async close() {
      closed = true
      clearTimeout(retry)
      const client = await connected?.catch(() => undefined)
      await client?.end()
    },
  }
}
