import type { Duplex } from 'node:stream'
import { ClientGone } from '../errors.ts'
import { BACKEND_KEY_DATA, encodeMessage } from '../messages.ts'
import { encodeReady } from './aborted.ts'
import type { Parameters } from './parameters.ts'
import type { Pool } from './pool.ts'
import { IDLE, PARAMETER_STATUS } from './protocol.ts'

/** What a client is told once it is let in: the settings of its session, the key by which it may cancel, and that it may begin. */
export function encodeWelcome(parameters: Parameters, key: Buffer): Buffer {
  const statuses = [...parameters].map(([name, value]) =>
    encodeMessage(PARAMETER_STATUS, Buffer.from(`${name}\0${value}\0`, 'latin1')),
  )
  return Buffer.concat([...statuses, encodeMessage(BACKEND_KEY_DATA, key), encodeReady(IDLE)])
}

/** What the servers of a pool report, once there is one: the first client waits for that. Errors: what opening it brings, ClientGone. */
export function firstReported(pool: Pool, client: Duplex): Promise<Parameters> {
  return new Promise((resolve, reject) => {
    const gone = (): void => {
      giveUp()
      reject(new ClientGone('closed before it was connected'))
    }
    const settled = (): void => void client.off('end', gone).off('close', gone)
    const giveUp = pool.wait({
      given(server) {
        settled()
        server.takeBack()
        resolve(pool.reported() ?? server.parameters)
      },
      failed(error) {
        settled()
        reject(error)
      },
    })
    client.once('end', gone).once('close', gone)
  })
}
