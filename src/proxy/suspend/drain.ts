import type { Socket } from 'node:net'

/** Resolves when all sockets are closed, or after `ms` milliseconds. The set must lose closed sockets and gain none. */
export function drained(sockets: ReadonlySet<Socket>, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    const look = (): void => {
      if (sockets.size > 0) return
      clearTimeout(timer)
      resolve()
    }
    for (const socket of sockets) socket.once('close', look)
    look()
  })
}
