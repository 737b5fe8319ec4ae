import type { SendHandle } from 'node:child_process'
import net, { isIPv4, isIPv6 } from 'node:net'
import { getSystemErrorName } from 'node:util'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import type { ListenAddress } from '../network.ts'
import { proxyPlaces } from '../public_address.ts'

/** A bound socket on which several processes accept. While it is open here, no connection in its backlog is lost. */
export interface BoundSocket {
  /** Sent to a process that is to accept on it. */
  readonly handle: SendHandle
  close(): void
}

/** The methods of libuv's handle that are used here. */
interface Handle {
  getsockname(address: object): number
  close(): void
}

/** Node's cluster creates its sockets with this: the creating process does not accept on them, as `listen` would. */
const { _createServerHandle: createHandle } = net as unknown as {
  _createServerHandle(this: void, host: string, port: number, family: 4 | 6, fd: null, flags: number): Handle | number
}

/** libuv's UV_TCP_IPV6ONLY: `::` leaves IPv4 to others. */
const IPV6_ONLY = 1

/**
 * Binds a port of an address.
 * @param beside the other addresses to listen on: `::` takes IPv4 too unless one of them is IPv4
 * Errors: UsageError (the port is taken, or the address is not one of this machine).
 */
function bindListener({ host, port }: ListenAddress, beside: readonly string[]): BoundSocket {
  const flags = isIPv6(host) && beside.some(isIPv4) ? IPV6_ONLY : 0
  const handle = createHandle(host, port, isIPv6(host) ? 6 : 4, null, flags)
  // A taken port is reported only by the next call on the handle.
  const failed = typeof handle === 'number' ? handle : handle.getsockname({})
  if (typeof handle === 'number' || failed !== 0)
    throw new UsageError(`Port ${port} of ${host} cannot be used for the proxy: ${getSystemErrorName(failed)}.`)
  return { handle: handle as unknown as SendHandle, close: () => handle.close() }
}

/** The sockets of the proxy's addresses. */
export interface ProxyListeners {
  readonly all: readonly BoundSocket[]
  /** 0 when it could not be bound: it is for convenience, and may belong to another Postgres. */
  readonly extraProxyPort: number
}

/** Binds the addresses that the proxy listens on. Errors: UsageError (its own port is taken at one of them). */
export function bindProxy(config: Config): ProxyListeners {
  const own = bindAll(proxyPlaces({ ...config, extraProxyPort: 0 }), config.listen)
  try {
    const extra = bindAll(proxyPlaces(config).slice(own.length), config.listen)
    return { all: [...own, ...extra], extraProxyPort: extra.length > 0 ? config.extraProxyPort : 0 }
  } catch {
    return { all: own, extraProxyPort: 0 }
  }
}

function bindAll(places: readonly ListenAddress[], beside: readonly string[]): BoundSocket[] {
  const bound: BoundSocket[] = []
  try {
    for (const place of places) bound.push(bindListener(place, beside))
  } catch (error) {
    for (const listener of bound) listener.close()
    throw error
  }
  return bound
}
