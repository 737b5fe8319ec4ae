import type { Socket } from 'node:net'

/** Resolves when none of these sockets is open any more, or after so many milliseconds. The set is to lose each that closes, and gain none. */
export function emptied(sockets: ReadonlySet<Socket>, ms: number): Promise<void> {
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
