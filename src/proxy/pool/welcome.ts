import type { Duplex } from 'node:stream'
import { ClientGone, ProxyError } from '../wire/errors.ts'
import { encodeMessage } from '../wire/messages.ts'
import { encodeReady } from './aborted.ts'
import type { Borrower } from './borrower.ts'
import { CONFIGURED, type Parameters, requestedParameters, settingStatements, trackedOf } from './parameters.ts'
import type { Pool } from './pool.ts'
import { BACKEND_KEY_DATA, IDLE, PARAMETER_STATUS } from '../wire/message_types.ts'
import type { PoolServer } from './server_interface.ts'

/** A setting that accepts any text. */
const NEVER_REFUSED = 'application_name'

/** The messages after a login: the settings of the session, the key for cancel requests, and ReadyForQuery. */
export function encodeWelcome(parameters: Parameters, key: Buffer): Buffer {
  return Buffer.concat([encodeParameters(parameters), encodeMessage(BACKEND_KEY_DATA, key), encodeReady(IDLE)])
}

/** ParameterStatus messages. */
export const encodeParameters = (parameters: Iterable<readonly [name: string, value: string]>): Buffer =>
  Buffer.concat(
    [...parameters].map(([name, value]) =>
      encodeMessage(PARAMETER_STATUS, Buffer.from(`${name}\0${value}\0`, 'latin1')),
    ),
  )

/**
 * The settings of a client's session: those that the servers of its pool report, and those of its startup packet. Uses
 * a server connection if the pool has opened none yet, or if the packet asks for a value that a server may refuse.
 * Errors: unpoolable, compute_refused, ClientGone, and those of opening a server connection.
 */
export async function settingsOf(
  pool: Pool,
  client: Duplex,
  startup: ReadonlyMap<string, string>,
): Promise<{ readonly all: Parameters; readonly tracked: Parameters }> {
  const reported = pool.reported() ?? (await withServer(pool, client, async (server) => new Map(server.parameters())))
  const tracked = new Map([...trackedOf(reported), ...requestedParameters(startup, reported)])
  const refusable = new Map([...tracked].filter(([name]) => name !== NEVER_REFUSED))
  if (settingStatements(refusable, reported).length > 0) {
    await withServer(pool, client, (server) => apply(server, refusable))
    for (const [name, value] of refusable) tracked.set(name, value)
  }
  // What the first server reported may be out of date.
  const configured = reported.has(CONFIGURED) ? new Map([[CONFIGURED, pool.configured()]]) : undefined
  return { all: new Map([...reported, ...(configured ?? []), ...tracked]), tracked }
}

/** Applies settings to a server, and records how the server writes them. Errors: compute_refused. */
async function apply(server: PoolServer, settings: Parameters): Promise<void> {
  const answers = settingStatements(settings, server.parameters()).map(
    (statement) =>
      new Promise<void>((resolve, reject) => {
        server.run(statement, (refused) => {
          if (refused) reject(new ProxyError('compute_refused', refused))
          else resolve()
        })
      }),
  )
  await Promise.all(answers)
  for (const name of settings.keys()) settings.set(name, server.parameters().get(name) ?? '')
}

/** Borrows a server connection of the pool for a client that is logging in. */
function withServer<T>(pool: Pool, client: Duplex, use: (server: PoolServer) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const gone = (): void => {
      giveUp()
      reject(new ClientGone('closed before it was connected'))
    }
    const settle = (then: () => void): void => {
      client.off('end', gone).off('close', gone)
      then()
    }
    const borrower: Borrower = {
      receive: () => true,
      parameter: () => {},
      settled: () => {},
      answered: () => {},
      drained: () => {},
      unprepared: () => {},
      deallocated: () => {},
      discarded: () => {},
      onReset: () => {},
      lost: () => settle(() => reject(new ProxyError('compute_lost'))),
    }
    const giveUp = pool.wait({
      borrower,
      sendsOneRequest: () => false,
      applicationName: () => '',
      onServer(server) {
        server.lend(borrower)
        use(server)
          .finally(() => server.takeBack())
          .then(
            (result) => settle(() => resolve(result)),
            (error: unknown) => settle(() => reject(error instanceof Error ? error : new Error(String(error)))),
          )
      },
      onError: (error) => settle(() => reject(error)),
    })
    client.once('end', gone).once('close', gone)
  })
}
