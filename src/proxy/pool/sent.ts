/** So much of what was sent to a server is kept, to be sent to another should this one be gone before it begins. */
export const MOST_KEPT = 65_536

/** What a server was sent since it was lent, or since all was answered within a transaction. */
export interface Sent {
  begin(): void
  /** @param bytes valid only until this returns */
  add(bytes: Buffer): void
  /** An answer to some of it has come. */
  answered(): void
  /** Empty if an answer to some of it has come, or it was too long to be kept. */
  unanswered(): readonly Buffer[]
  /** Answered or not; unknown if it was too long to be kept. */
  all(): Buffer | undefined
  drop(): void
}

export function createSent(): Sent {
  let kept: Buffer[] | undefined
  let length = 0
  let isAnswered = false

  return {
    begin() {
      kept = []
      length = 0
      isAnswered = false
    },
    add(bytes) {
      if (!kept) return
      length += bytes.length
      if (length > MOST_KEPT) kept = undefined
      else kept.push(Buffer.from(bytes))
    },
    answered() {
      isAnswered = true
    },
    unanswered: () => (isAnswered ? [] : (kept ?? [])),
    all: () => kept && Buffer.concat(kept),
    drop() {
      kept = undefined
    },
  }
}
