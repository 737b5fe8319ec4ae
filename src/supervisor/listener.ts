import type { SendHandle } from 'node:child_process'
import net from 'node:net'
import { getSystemErrorName } from 'node:util'
import { UsageError } from '../errors.ts'

/** A socket that is bound to a port, for several processes to accept on. While this one has it, no connection that waits there is lost. */
export interface Listener {
  /** What is sent to a process that is to accept on it. */
  readonly handle: SendHandle
  close(): void
}

/** What libuv's handle can do, as far as it is used here. */
interface Handle {
  getsockname(address: object): number
  close(): void
}

/** How Node's own cluster makes a socket that the process which makes it does not accept on: `listen` would begin to. */
const { _createServerHandle: createHandle } = net as unknown as {
  _createServerHandle(this: void, host: string, port: number, family: 4): Handle | number
}

/** Binds a port of an IPv4 address. Errors: UsageError when it is taken. */
export function bindListener(host: string, port: number): Listener {
  const handle = createHandle(host, port, 4)
  // That the port is taken is said only when something is asked of the handle.
  const failed = typeof handle === 'number' ? handle : handle.getsockname({})
  if (typeof handle === 'number' || failed !== 0)
    throw new UsageError(`Port ${port} cannot be used for the proxy: ${getSystemErrorName(failed)}.`)
  return { handle: handle as unknown as SendHandle, close: () => handle.close() }
}
