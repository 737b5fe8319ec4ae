import type { Duplex } from 'node:stream'
import { ClientGone, ProxyError } from './errors.ts'
import { endsWithTerminate } from './messages.ts'

/** Limit of the bytes that a client may send before it is served. */
const MAX_EARLY_BYTES = 4_096

/**
 * Notices when a client that is not served yet leaves. A paused socket would not tell: its bytes are read and kept.
 * @param onLeft called once, with ClientGone or malformed (too many bytes)
 * @returns ends the watch and leaves the socket paused, with its bytes unread
 */
export function watchClient(client: Duplex, onLeft: (why: ClientGone | ProxyError) => void): () => void {
  const chunks: Buffer[] = []
  let size = 0
  let isLeft = false

  function leave(why: ClientGone | ProxyError): void {
    if (isLeft) return
    isLeft = true
    client.pause()
    onLeft(why)
  }

  const gone = (): void => leave(new ClientGone('closed while its login waited'))
  function read(chunk: Buffer): void {
    chunks.push(chunk)
    size += chunk.length
    if (endsWithTerminate(chunk)) gone()
    else if (size > MAX_EARLY_BYTES) leave(new ProxyError('malformed', { text: 'unexpected data before the login' }))
  }

  client.on('data', read).on('end', gone).on('close', gone)
  if (client.destroyed || client.readableEnded) gone()
  else client.resume()
  return () => {
    client.off('data', read).off('end', gone).off('close', gone)
    client.pause()
    if (size > 0 && !client.destroyed && !client.readableEnded) client.unshift(Buffer.concat(chunks))
  }
}
