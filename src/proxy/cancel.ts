/*
 * A request to cancel comes on a connection of its own, with nothing but the key that the session's client was given. It may come to any
 * proxy of the catalog: one that does not know the key asks the others, by a hash that only proxies can make, and whoever has the session
 * acts. Nothing is answered either way, as in Postgres.
 */
import { createHmac } from 'node:crypto'
import type { Logger } from 'pino'
import type { Catalog } from '../catalog/catalog.ts'
import { askToCancel, CANCELS, type CancelAsked } from '../catalog/cancel.ts'
import { createCancelLimit } from './cancel_limit.ts'
import type { Client } from './client.ts'
import { closeGently } from './close.ts'
import { type ComputeAddress, openCompute } from './compute.ts'
import { CANCEL_REQUEST } from './startup.ts'

/** How long a compute may take to do with a request to cancel what it does, and close. */
const CANCEL_MS = 5_000

const LENGTH_AND_CODE = 8

/** Of requests that wait to be asked of the others. More come only from whoever guesses keys. */
const MOST_WAITING = 1_000

/** What a session lets those do who have its key. */
export interface Cancellable {
  /** Cancels what it is doing; resolves when that was asked for, and never rejects. */
  cancel(): Promise<void> | void
  /** Whether who comes from there may connect to its endpoint. */
  admits(address: string | undefined): boolean
}

export interface CancelKeys {
  /** Remembers the session whose client was given this key (the body of BackendKeyData). The answer forgets it. */
  remember(key: Buffer, session: Cancellable): () => void
  /** Does what a CancelRequest asks for, here or where its session is, and closes. A network that sends very many is not listened to. */
  pass(client: Pick<Client, 'stream' | 'address'>, packet: Buffer): void
  stop(): void
}

/** @param secret what all proxies of the catalog have in common. Errors: the catalog is away. */
export async function startCancelKeys(catalog: Catalog, secret: Buffer, log: Logger): Promise<CancelKeys> {
  const sessions = new Map<string, Cancellable>()
  const isWithinLimit = createCancelLimit()
  let waiting: CancelAsked[] = []
  let asking: Promise<void> | undefined

  const nameOf = (key: Buffer): string => createHmac('sha256', secret).update('cancel ').update(key).digest('base64')

  async function cancelHere({ name, address }: CancelAsked): Promise<void> {
    const session = sessions.get(name)
    if (session?.admits(address)) await session.cancel()
  }

  /** Asks the others; what comes meanwhile goes together with the next statement. */
  function askOthers(asked: CancelAsked): Promise<void> {
    if (waiting.length >= MOST_WAITING) return Promise.resolve()
    waiting.push(asked)
    asking ??= Promise.resolve().then(async () => {
      while (waiting.length > 0) {
        const all = waiting
        waiting = []
        await askToCancel(catalog, all).catch((error: unknown) =>
          log.debug({ err: error }, 'could not pass on a cancel'),
        )
      }
      asking = undefined
    })
    return asking
  }

  const unlisten = await catalog.listen(CANCELS, (payload) => {
    if (payload !== undefined) void cancelHere(JSON.parse(payload) as CancelAsked)
  })

  return {
    remember(key, session) {
      const name = nameOf(key)
      sessions.set(name, session)
      return () => void (sessions.get(name) === session && sessions.delete(name))
    },
    pass({ stream, address }, packet) {
      if (!isWithinLimit(address)) return closeGently(stream)
      const asked = { name: nameOf(packet.subarray(LENGTH_AND_CODE)), address }
      const done = sessions.has(asked.name) ? cancelHere(asked) : askOthers(asked)
      void done.then(() => closeGently(stream))
    },
    stop: unlisten,
  }
}

/** Asks a compute to cancel what the session does to which it gave this key; resolves when it has closed. */
export function cancelAtCompute(address: ComputeAddress, key: Buffer): Promise<void> {
  const packet = Buffer.alloc(LENGTH_AND_CODE + key.length)
  packet.writeInt32BE(packet.length, 0)
  packet.writeInt32BE(CANCEL_REQUEST, 4)
  key.copy(packet, LENGTH_AND_CODE)
  return new Promise((resolve) => {
    const compute = openCompute(address)
    const timer = setTimeout(() => compute.destroy(), CANCEL_MS)
    compute.on('error', () => {})
    compute.once('close', () => {
      clearTimeout(timer)
      resolve()
    })
    compute.once('end', () => compute.destroy())
    compute.resume()
    compute.write(packet)
  })
}
