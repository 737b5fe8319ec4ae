import type { FromPart, ToPart } from '../supervisor/messages.ts'

/* A part's side of the channel to its supervisor, if it has one. */

export const isSupervised = (): boolean => process.send !== undefined

/** Sends a message to the supervisor. Ignores errors: this process ends with its supervisor. */
export function notifySupervisor(message: FromPart): void {
  process.send?.(message, undefined, undefined, () => {})
}

export function onStop(stop: () => void): void {
  process.on('message', (message) => {
    if ('stop' in (message as ToPart)) stop()
  })
}

/**
 * Asks the supervisor for one of the sockets that all proxies accept on: each answer is a new descriptor. Errors: no
 * descriptor is left for it.
 */
export function sharedListener(index: number): Promise<object> {
  return new Promise((resolve, reject) => {
    const hear = (message: unknown, handle?: object): void => {
      const told = message as ToPart
      if (!('listener' in told) || told.listener !== index) return
      process.off('message', hear)
      if (handle) resolve(handle)
      else reject(new Error('no descriptor was left to receive the socket to accept on'))
    }
    process.on('message', hear)
    notifySupervisor({ wants: 'listener', index })
  })
}
