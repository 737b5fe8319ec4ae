const HEAD_BYTES = 5

/** A message of a server (Postgres manual, "Message Formats"). Its body is undefined where it is over the limit. */
export interface ServerMessage {
  readonly type: string
  readonly body: Buffer | undefined
  readonly bytes: number
}

/**
 * Splits what a server sends into messages. Keeps at most one unfinished message, and of one over the limit only how
 * much of it is still to come.
 */
export function createMessageSplitter(maxBytes: number): (chunk: Buffer) => Generator<ServerMessage> {
  let kept: Buffer[] = []
  let keptBytes = 0
  /** Bytes that complete the kept ones: a head, or the message after its head. */
  let wanted = HEAD_BYTES
  let toSkip = 0

  return function* split(chunk) {
    let rest = chunk
    while (rest.length > 0) {
      if (toSkip > 0) {
        const skipped = Math.min(toSkip, rest.length)
        toSkip -= skipped
        rest = rest.subarray(skipped)
        continue
      }
      if (keptBytes === 0 && rest.length >= HEAD_BYTES) {
        const bytes = rest.readUInt32BE(1) - 4
        // Most messages come whole: no copy is made of them.
        if (bytes >= 0 && bytes <= maxBytes && rest.length >= HEAD_BYTES + bytes) {
          const end = HEAD_BYTES + bytes
          yield { type: String.fromCharCode(rest[0] ?? 0), body: rest.subarray(HEAD_BYTES, end), bytes }
          rest = rest.subarray(end)
          continue
        }
      }
      const missing = wanted - keptBytes
      if (rest.length < missing) {
        // A copy: the chunk may be a small part of a large buffer.
        kept.push(Buffer.from(rest))
        keptBytes += rest.length
        return
      }
      const whole = keptBytes === 0 ? rest.subarray(0, wanted) : Buffer.concat([...kept, rest.subarray(0, missing)])
      rest = rest.subarray(missing)
      kept = []
      keptBytes = 0
      const type = String.fromCharCode(whole[0] ?? 0)
      const bytes = whole.readUInt32BE(1) - 4
      if (bytes < 0) throw new Error('a message is shorter than its head')
      if (wanted === HEAD_BYTES && bytes > 0) {
        if (bytes > maxBytes) {
          toSkip = bytes
          yield { type, body: undefined, bytes }
          continue
        }
        wanted = HEAD_BYTES + bytes
        kept = [whole]
        keptBytes = whole.length
        continue
      }
      wanted = HEAD_BYTES
      yield { type, body: whole.subarray(HEAD_BYTES), bytes }
    }
  }
}

/** A message of a client: its type, and its body. */
export function clientMessage(type: string, body: string): Buffer {
  const text = Buffer.from(body)
  const head = Buffer.alloc(HEAD_BYTES)
  head.write(type, 'latin1')
  head.writeUInt32BE(text.length + 4, 1)
  return Buffer.concat([head, text])
}
