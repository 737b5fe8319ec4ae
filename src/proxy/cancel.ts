/*
 * A request to cancel comes on a connection of its own, with nothing but the key that the session's client was given. It may come to any
 * proxy of the catalog: one that does not know the key asks the others, by a hash that only proxies can make, and whoever has the session
 * acts. Nothing is answered either way, as in Postgres; but the connection is closed only when the session has been told, since programs take
 * that for a promise that what they send next is not cancelled. So each proxy answers the others: that it has told the session, or has none.
 */
import { createHmac, randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Catalog } from '../catalog/catalog.ts'
import {
  answerCancels,
  askToCancel,
  CANCEL_ANSWERS,
  type CancelAnswer,
  type CancelAsked,
  CANCELS,
} from '../catalog/cancel.ts'
import { createBatches } from './batches.ts'
import { createCancelLimit } from './cancel_limit.ts'
import type { Client } from './client.ts'
import { closeGently } from './close.ts'
import { type SessionAddress, openCompute } from './compute.ts'
import { CANCEL_REQUEST } from './startup.ts'

/** How long a compute may take to do with a request to cancel what it does, and close. */
const CANCEL_MS = 5_000

/** How long the other proxies are waited for: as long as a compute may take, and a moment for their answer. */
const ANSWER_MS = CANCEL_MS + 500

const LENGTH_AND_CODE = 8

/** Limit of cancel requests that wait for other proxies. Only a client that guesses keys sends more. */
const MAX_WAITING = 1_000

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
  const me = randomUUID()
  let count = 0
  /** Of requests that others were asked for: told of each answer. */
  const open = new Map<string, (isHere: boolean) => void>()

  const nameOf = (key: Buffer): string => createHmac('sha256', secret).update('cancel ').update(key).digest('base64')

  /** Answers whether the session is here, once it has been told. */
  async function cancelHere({ name, address }: Omit<CancelAsked, 'id'>): Promise<boolean> {
    const session = sessions.get(name)
    if (session?.admits(address)) await session.cancel()
    return session !== undefined
  }

  const asks = createBatches<CancelAsked, number>((all) => askToCancel(catalog, all))
  const answers = createBatches<CancelAnswer, void>((all) => answerCancels(catalog, all))

  /** Asks the others; resolves when one has told the session, when all have answered, or are not waited for any longer. */
  async function askOthers(asked: Omit<CancelAsked, 'id'>): Promise<void> {
    if (open.size >= MAX_WAITING) return
    const id = `${me} ${++count}`
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    let answered = 0
    let expected = Infinity
    open.set(id, (isHere) => {
      answered++
      if (isHere || answered >= expected) end()
    })
    const timer = setTimeout(end, ANSWER_MS)
    try {
      expected = await asks.add({ id, ...asked })
      if (answered < expected) await over
    } catch (error) {
      log.debug({ err: error }, 'could not pass on a cancel')
    } finally {
      clearTimeout(timer)
      open.delete(id)
    }
  }

  async function answer(asked: CancelAsked): Promise<void> {
    const isHere = await cancelHere(asked)
    const tell = open.get(asked.id)
    if (tell) return tell(isHere)
    await answers.add({ id: asked.id, isHere }).catch((error: unknown) => {
      log.debug({ err: error }, 'could not answer a cancel')
    })
  }

  const unlisten = [
    await catalog.listen(CANCELS, (payload) => {
      if (payload !== undefined) void answer(JSON.parse(payload) as CancelAsked)
    }),
    await catalog.listen(CANCEL_ANSWERS, (payload) => {
      if (payload === undefined) return
      const { id, isHere } = JSON.parse(payload) as CancelAnswer
      open.get(id)?.(isHere)
    }),
  ]

  return {
    remember(key, session) {
      const name = nameOf(key)
      sessions.set(name, session)
      return () => void (sessions.get(name) === session && sessions.delete(name))
    },
    pass({ stream, address }, packet) {
      if (!isWithinLimit(address)) return closeGently(stream)
      const asked = { name: nameOf(packet.subarray(LENGTH_AND_CODE)), address }
      const done: Promise<unknown> = sessions.has(asked.name) ? cancelHere(asked) : askOthers(asked)
      void done.then(() => closeGently(stream))
    },
    stop() {
      for (const end of unlisten) end()
    },
  }
}

/** Asks a compute to cancel what the session does to which it gave this key; resolves when it has closed. */
export function cancelAtCompute(address: SessionAddress, key: Buffer): Promise<void> {
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
