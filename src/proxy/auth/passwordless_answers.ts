import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import {
  type AskedLogin,
  PASSWORDLESS_ANSWERS,
  PASSWORDLESS_SECONDS,
  takePasswordlessLogin,
} from '../../catalog/passwordless_login.ts'
import { ProxyError } from '../wire/errors.ts'
import { watchClient } from '../wire/watch_client.ts'

/** The answers of people to the logins that wait at this proxy. */
export interface PasswordlessAnswers {
  /**
   * Waits for the sealed keys of a login that was asked for. Errors: passwordless_refused, passwordless_expired,
   * stopping, malformed, ClientGone.
   */
  of(asked: AskedLogin, client: Duplex): Promise<Buffer>
  /** Ends all that wait. */
  stop(): void
}

/** A login that waits. */
interface Waiting {
  /** Reads whether there is an answer. */
  look(): void
  end(why: ProxyError): void
}

/** Learns of answers by NOTIFY. Errors: the catalog is away. */
export async function startAnswers(catalog: Catalog, log: Logger): Promise<PasswordlessAnswers> {
  const waiting = new Map<string, Waiting>()
  const unlisten = await catalog.listen(PASSWORDLESS_ANSWERS, (id) => {
    const told = id === undefined ? [...waiting.values()] : [waiting.get(id)]
    for (const each of told) each?.look()
  })

  return {
    async of(asked, client) {
      const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
      // One after the other: of two that overlap, the one without the keys must not be the last word.
      let looking: Promise<unknown> = Promise.resolve()
      const look = (givesUp = false): void => {
        looking = looking.then(async () => {
          const taken = await takePasswordlessLogin(catalog, asked, givesUp).catch((error: unknown) => {
            log.debug({ err: error }, 'could not read the answer to a login without a password')
          })
          if (taken?.keys) resolve(taken.keys)
          else if (taken?.answer === 'refused') reject(new ProxyError('passwordless_refused'))
          else if (givesUp) reject(new ProxyError('passwordless_expired'))
        })
      }
      const timer = setTimeout(() => look(true), PASSWORDLESS_SECONDS * 1_000)
      const unwatch = watchClient(client, reject)
      waiting.set(asked.id, { look, end: reject })
      try {
        return await promise
      } catch (error) {
        // Its page then says that the client waits no more.
        look(true)
        throw error
      } finally {
        clearTimeout(timer)
        unwatch()
        waiting.delete(asked.id)
      }
    },
    stop() {
      unlisten()
      for (const each of waiting.values()) each.end(new ProxyError('stopping'))
    },
  }
}
