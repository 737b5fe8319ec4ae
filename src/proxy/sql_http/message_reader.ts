import { MESSAGE_HEAD, type Message, messageAt } from '../wire/messages.ts'

interface MessageEvents {
  /** Errors: any; reading ends then. */
  readonly hear: (message: Message) => void
  /** A message is over the limit, or `hear` has thrown. */
  readonly failed: (error: Error | 'too_large') => void
  /** Whether later messages are not read. */
  readonly isOver: () => boolean
}

/**
 * Returns a function that reads messages from a stream, chunk after chunk. Chunks of an incomplete message are joined
 * once, when it is complete.
 */
export function messageReader(maxLength: number, { hear, failed, isOver }: MessageEvents): (chunk: Buffer) => void {
  let chunks: Buffer[] = []
  let have = 0
  let need = MESSAGE_HEAD

  return (chunk) => {
    chunks.push(chunk)
    have += chunk.length
    if (have < need) return
    const bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks)
    let at = 0
    while (!isOver()) {
      const message = messageAt(bytes, at, maxLength)
      if (message === 'invalid') return failed('too_large')
      if (!message) break
      at += MESSAGE_HEAD + message.body.length
      try {
        hear(message)
      } catch (error) {
        // No message of one compute may end the proxy.
        return failed(error as Error)
      }
    }
    const rest = bytes.subarray(at)
    chunks = rest.length > 0 ? [rest] : []
    have = rest.length
    need = have < MESSAGE_HEAD ? MESSAGE_HEAD : 1 + rest.readInt32BE(1)
  }
}
