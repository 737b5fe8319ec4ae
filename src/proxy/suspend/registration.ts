import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { confirmProxy, registerProxy, unregisterProxy } from '../../catalog/proxy.ts'

const RETRY_MS = 250
const CONFIRM_MS = 4_000

export interface Registration {
  /**
   * Registers the proxy, and registers it again after its session is lost. Errors: the catalog is away, the first time.
   * @param onRenewed called after each new registration, whose new number voids acknowledgements under the old one
   */
  start(onRenewed: () => void): Promise<void>
  /** The number under which the worker knows this proxy. undefined while its session is lost. */
  number(): number | undefined
  stop(): Promise<void>
}

/** Registers this process as a live proxy, by a catalog session that it keeps open. */
export function createRegistration(catalog: Catalog, log: Logger): Registration {
  let notifyRenewed = (): void => {}
  let number: number | undefined
  let session: Awaited<ReturnType<Catalog['session']>> | undefined
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  async function open(): Promise<void> {
    const opened = await catalog.session()
    let lost = false
    opened.onLost(() => {
      lost = true
      if (session !== opened) return
      number = undefined
      session = undefined
      if (!stopped) void reopen()
    })
    try {
      const registered = await registerProxy(opened)
      if (lost) throw new Error('the session was lost while registering')
      number = registered
      session = opened
    } catch (error) {
      await opened.end().catch(() => {})
      throw error
    }
  }

  /** Closes a session that does not answer, so that another is opened. */
  function confirm(): void {
    const current = session
    if (!current) return
    confirmProxy(current).catch((error: unknown) => {
      log.debug({ err: error }, 'the session in the catalog does not answer')
      return current.end().catch(() => {})
    })
  }

  async function reopen(): Promise<void> {
    log.warn('the session in the catalog was lost: registering again')
    while (!stopped) {
      try {
        await open()
        return notifyRenewed()
      } catch (error) {
        log.debug({ err: error }, 'could not register')
        await sleep(RETRY_MS)
      }
    }
  }

  return {
    async start(onRenewed) {
      notifyRenewed = onRenewed
      await open()
      timer = setInterval(confirm, CONFIRM_MS)
    },
    number: () => number,
    async stop() {
      stopped = true
      clearInterval(timer)
      const last = session
      if (!last || number === undefined) return
      await unregisterProxy(last, number).catch((error: unknown) => log.debug({ err: error }, 'could not unregister'))
      await last.end().catch(() => {})
    },
  }
}
