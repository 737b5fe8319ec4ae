import { MESSAGE_HEAD } from '../wire/messages.ts'
import { COPY_DATA } from '../wire/message_types.ts'

/** Bytes sent to a server that are kept, to be sent to another server if this one ends before it runs them. */
export const MAX_KEPT = 65_536

/** Beyond `MAX_KEPT`: bytes that are kept of each message, and the number of messages. */
const MAX_KEPT_PER_MESSAGE = 4_096
const MAX_MESSAGES = 1_000

/** A message sent to a server. */
export interface SentMessage {
  /** The message from its type on, possibly only its beginning. */
  readonly bytes: Buffer
  readonly isCut: boolean
  /** The client has not sent its end: no server has run it. */
  readonly isPart: boolean
}

/** The messages sent to a server since it was lent, or since all were answered within a transaction. */
export interface Sent {
  /** @param begun the beginning of a message of which the server has received no byte yet */
  begin(begun: Buffer): void
  /** @param bytes valid only until this returns */
  add(bytes: Buffer): void
  /** Part of the response has come. */
  answered(): void
  isAnswered(): boolean
  /** Empty if part of the response has come, or the messages were too long to be kept. */
  unanswered(): readonly Buffer[]
  /** All messages, answered or not, except COPY data. Returns undefined if they were too many to be kept. */
  messages(): readonly SentMessage[] | undefined
  drop(): void
}

export function createSent(): Sent {
  let kept: Buffer[] | undefined
  let length = 0
  let isAnswered = false
  /** Replaces `kept` once that is too long. */
  let cutter: Cutter | undefined

  return {
    begin(begun) {
      kept = begun.length > 0 ? [Buffer.from(begun)] : []
      length = begun.length
      isAnswered = false
      cutter = undefined
    },
    add(bytes) {
      if (cutter) return cutter.add(bytes)
      if (!kept) return
      length += bytes.length
      if (length <= MAX_KEPT) return void kept.push(Buffer.from(bytes))
      cutter = createCutter(MAX_KEPT_PER_MESSAGE)
      for (const one of [...kept, bytes]) cutter.add(one)
      kept = undefined
    },
    answered() {
      isAnswered = true
    },
    isAnswered: () => isAnswered,
    unanswered: () => (isAnswered ? [] : (kept ?? [])),
    messages() {
      if (cutter || !kept) return cutter?.messages()
      const whole = createCutter(MAX_KEPT)
      for (const one of kept) whole.add(one)
      return whole.messages()
    },
    drop() {
      kept = cutter = undefined
    },
  }
}

interface Cutter {
  /** @param bytes valid only until this returns */
  add(bytes: Buffer): void
  /** Returns undefined if there were too many. */
  messages(): readonly SentMessage[] | undefined
}

/** Splits bytes into messages and keeps at most `most` bytes of each. */
function createCutter(most: number): Cutter {
  const messages: SentMessage[] = []
  /** The beginning of the message being read, and the number of bytes to come once its length is known. */
  let begun: Buffer = Buffer.alloc(0)
  let missing: number | undefined
  let isOver = false

  function end(): void {
    const length = 1 + begun.readInt32BE(1)
    if (begun[0] !== COPY_DATA) messages.push({ bytes: begun, isCut: begun.length < length, isPart: false })
    begun = Buffer.alloc(0)
    missing = undefined
    isOver = messages.length > MAX_MESSAGES
  }

  return {
    add(bytes) {
      for (let at = 0; at < bytes.length && !isOver;) {
        const wanted = missing ?? MESSAGE_HEAD - begun.length
        const piece = bytes.subarray(at, at + wanted)
        at += piece.length
        begun = Buffer.concat([begun, piece.subarray(0, Math.max(0, most - begun.length))])
        if (missing !== undefined) missing -= piece.length
        else if (begun.length === MESSAGE_HEAD) missing = begun.readInt32BE(1) - 4
        if (missing === 0) end()
      }
    },
    messages() {
      if (isOver) return undefined
      return begun.length === 0 ? messages : [...messages, { bytes: begun, isCut: true, isPart: true }]
    },
  }
}
