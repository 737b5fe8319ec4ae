import type { FromPart, ToPart } from '../supervisor/messages.ts'

/* A part's side of the channel to the supervisor that started it, if one did. */

export const isSupervised = (): boolean => process.send !== undefined

/** Tells the supervisor. One that is gone takes this process with it. */
export function tellSupervisor(message: FromPart): void {
  process.send?.(message, undefined, undefined, () => {})
}

export function onStop(stop: () => void): void {
  process.on('message', (message) => {
    if ('stop' in (message as ToPart)) stop()
  })
}

/**
 * Asks the supervisor for one of the sockets that all proxies accept on: each answer is a descriptor of its own. Errors: there is none left
 * for it.
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
    tellSupervisor({ wants: 'listener', index })
  })
}
