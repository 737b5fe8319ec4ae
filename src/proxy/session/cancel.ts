/*
 * A CancelRequest arrives on its own connection, with only the key that the session's client was given, at any proxy of
 * the catalog. A proxy that does not know the key asks the others by a keyed hash that only proxies can compute, and
 * the proxy of the session cancels. The client gets no answer, as in Postgres. The connection is closed only after the
 * cancel was sent to the session, since programs take the close as a promise that their next query is not cancelled. So
 * each proxy answers the others: it has cancelled, or does not have the session.
 */
import { createHmac, randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import {
  answerCancels,
  askToCancel,
  CANCEL_ANSWERS,
  type CancelAnswer,
  type CancelAsked,
  CANCELS,
} from '../../catalog/cancel.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import type { Client } from '../accept/client.ts'
import { openServerSocket } from '../../postgres/server_socket.ts'
import type { ComputeLocation } from '../../catalog/compute.ts'
import { closeGently } from '../wire/close.ts'
import { CANCEL_REQUEST } from '../wire/startup.ts'
import { createBatches } from './batches.ts'
import { createCancelLimit } from './cancel_limit.ts'

/** How long a compute may take to process a CancelRequest and to close the connection. */
const CANCEL_MS = 5_000

/** How long to wait for other proxies: a compute's limit plus time for their answer. */
const ANSWER_MS = CANCEL_MS + 500

const LENGTH_AND_CODE = 8

/** Limit of cancel requests that wait for other proxies. Only a client that guesses keys sends more. */
const MAX_WAITING = 1_000

/** A session as seen by cancel requests with its key. */
export interface Cancellable {
  /** Cancels the running query. Resolves when the request was sent. Never rejects. */
  cancel(): Promise<void> | void
  /** Whether the address may connect to the session's endpoint. */
  admits(address: string | undefined): boolean
}

export interface CancelKeys {
  /** Registers the session of this key (the body of BackendKeyData). The returned function removes it. */
  remember(key: Buffer, session: Cancellable): () => void
  /**
   * Processes a CancelRequest, here or at the session's proxy, and closes. Ignores requests over the network's limit.
   */
  pass(client: Pick<Client, 'stream' | 'address'>, packet: Buffer): void
  stop(): void
}

/** @param secret shared by all proxies of the catalog. Errors: the catalog is away. */
export async function startCancelKeys(catalog: Catalog, secret: Buffer, log: Logger): Promise<CancelKeys> {
  const sessions = new Map<string, Cancellable>()
  const isWithinLimit = createCancelLimit()
  const me = randomUUID()
  let count = 0
  /** Pending requests to other proxies. Each function is called with each answer. */
  const open = new Map<string, (isHere: boolean) => void>()

  const nameOf = (key: Buffer): string => createHmac('sha256', secret).update('cancel ').update(key).digest('base64')

  /** Cancels the session if it is at this proxy. Returns whether it is. */
  async function cancelHere({ name, address }: Omit<CancelAsked, 'id'>): Promise<boolean> {
    const session = sessions.get(name)
    if (session?.admits(address)) await session.cancel()
    return session !== undefined
  }

  const asks = createBatches<CancelAsked, number>((all) => askToCancel(catalog, all))
  const answers = createBatches<CancelAnswer, void>((all) => answerCancels(catalog, all))

  /** Asks the other proxies. Resolves when one has cancelled, when all have answered, or after the time-out. */
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
      log.debug({ err: error }, 'could not forward a cancel request')
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
      log.debug({ err: error }, 'could not answer a cancel request')
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

/** Sends a CancelRequest to the compute that issued the key. Resolves when the compute has closed the connection. */
export function cancelAtCompute(address: ComputeLocation, key: Buffer): Promise<void> {
  const packet = Buffer.alloc(LENGTH_AND_CODE + key.length)
  packet.writeInt32BE(packet.length, 0)
  packet.writeInt32BE(CANCEL_REQUEST, 4)
  key.copy(packet, LENGTH_AND_CODE)
  return new Promise((resolve) => {
    const compute = openServerSocket(address)
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
