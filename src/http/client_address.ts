import type { FastifyInstance } from 'fastify'
import { cidrList, forwardedAddress } from '../network.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The client's IP address, from `X-Forwarded-For` if its proxies are trusted; empty for a Unix socket. */
    readonly clientAddress: string
  }
}

/** Gives each request the address of its client. @param proxies networks (CIDR) whose `X-Forwarded-For` counts */
export function knowClients(app: FastifyInstance, proxies: readonly string[]): void {
  const trusted = cidrList(proxies)
  app.decorateRequest('clientAddress', {
    getter() {
      const { socket, headers } = this.raw
      return forwardedAddress(socket.remoteAddress, headers['x-forwarded-for'], trusted) ?? ''
    },
  })
}
