import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'
import { cidrList, isWithin, ownerOf } from '../network.ts'

/** The connections of one client address. */
interface Owner {
  open: number
  /** Connections without a request under way, the longest waiting first. */
  readonly waiting: Set<Socket>
}

/**
 * Limits the connections of one client address (IPv6: one /64). Over the limit, the connection that has waited longest
 * for a request is closed: connections without requests cannot keep out a client with one. A new connection is refused
 * only when all others have requests under way. The admin socket is not part of this server. Trusted HTTP proxies are
 * exempt, since they carry the connections of all their clients.
 */
export function limitConnections(
  app: FastifyInstance,
  { apiConnectionsPerAddress: most, forwardedForFrom }: Pick<Config, 'apiConnectionsPerAddress' | 'forwardedForFrom'>,
): void {
  if (most === 0) return
  const proxies = cidrList(forwardedForFrom)
  const owners = new Map<string, Owner>()
  const refused = new WeakSet<Socket>()
  /** The requests under way of each connection: a client may send one before the last is answered. */
  const underWay = new WeakMap<Socket, number>()
  const server: Server = app.server

  server.on('connection', (socket: Socket) => {
    if (isWithin(socket.remoteAddress, proxies)) return
    const address = ownerOf(socket.remoteAddress)
    const owner = owners.get(address) ?? { open: 0, waiting: new Set() }
    owners.set(address, owner)
    owner.open++
    const [oldest] = owner.waiting
    owner.waiting.add(socket)
    if (owner.open > most) {
      if (!oldest) refused.add(socket)
      else if (owner.waiting.delete(oldest)) oldest.destroy()
    }
    socket.once('close', () => {
      owner.waiting.delete(socket)
      owner.open--
      if (owner.open === 0) owners.delete(address)
    })
  })
  server.on('request', ({ socket }, response) => {
    const { waiting } = owners.get(ownerOf(socket.remoteAddress)) ?? {}
    waiting?.delete(socket)
    underWay.set(socket, (underWay.get(socket) ?? 0) + 1)
    response.once('close', () => {
      const left = (underWay.get(socket) ?? 1) - 1
      underWay.set(socket, left)
      if (left === 0 && !socket.destroyed) waiting?.add(socket)
    })
  })
  app.addHook('onRequest', async ({ raw }, reply) => {
    if (!refused.has(raw.socket)) return
    void reply.headers({ connection: 'close', 'retry-after': '1' })
    throw new AppError(
      'RATE_LIMITED',
      `Your address has ${most} connections with requests under way, as many as it may. Wait until one has ended.`,
    )
  })
}
