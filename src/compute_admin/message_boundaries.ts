interface MessageReader {
  /**
   * Calls `seen` at the head of each message: its type, and for an `R` (authentication) the first Int32 of its body.
   */
  read(bytes: Uint8Array, seen: (type: string, code: number) => void): void
  /** Whether the bytes read so far end with a whole message. */
  isBetween(): boolean
}

const HEAD_BYTES = 5
/** For an authentication request, whose body begins with its kind. */
const AUTHENTICATION_HEAD_BYTES = 9

/**
 * Finds the messages in one direction of a connection by their heads, without keeping their bodies (Postgres manual,
 * "Message Formats").
 * @param first whether the first message has no type, as a StartupMessage
 */
export function createMessageReader(first: 'startup' | 'typed'): MessageReader {
  let head: number[] = []
  let toSkip = 0
  let isStartup = first === 'startup'

  const wanted = () =>
    isStartup ? HEAD_BYTES - 1 : head[0] === 'R'.charCodeAt(0) ? AUTHENTICATION_HEAD_BYTES : HEAD_BYTES

  return {
    read(bytes, seen) {
      for (let at = 0; at < bytes.length;) {
        if (toSkip > 0) {
          const skipped = Math.min(toSkip, bytes.length - at)
          toSkip -= skipped
          at += skipped
          continue
        }
        head.push(bytes[at] ?? 0)
        at += 1
        if (head.length < wanted()) continue
        const view = Buffer.from(head)
        const type = isStartup ? 'startup' : String.fromCharCode(view[0] ?? 0)
        const length = view.readInt32BE(isStartup ? 0 : 1)
        // The length counts itself, but not the type.
        toSkip = length - (head.length - (isStartup ? 0 : 1))
        if (toSkip < 0) throw new Error('a message is shorter than its head')
        const code = head.length === AUTHENTICATION_HEAD_BYTES ? view.readInt32BE(HEAD_BYTES) : 0
        isStartup = false
        head = []
        seen(type, code)
      }
    },
    isBetween: () => head.length === 0 && toSkip === 0,
  }
}
