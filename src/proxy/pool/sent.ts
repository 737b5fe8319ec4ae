/** So much of what was sent to a server is kept, to be sent to another should this one be gone before it begins. */
export const MOST_KEPT = 65_536

/** What a server was sent since it was lent, while all of that is kept. */
export interface Sent {
  begin(): void
  /** @param bytes valid only until this returns */
  add(bytes: Buffer): void
  /** Nothing if some of it was not kept. */
  all(): readonly Buffer[]
  drop(): void
}

export function createSent(): Sent {
  let kept: Buffer[] | undefined
  let length = 0

  return {
    begin() {
      kept = []
      length = 0
    },
    add(bytes) {
      if (!kept) return
      length += bytes.length
      if (length > MOST_KEPT) kept = undefined
      else kept.push(Buffer.from(bytes))
    },
    all: () => kept ?? [],
    drop() {
      kept = undefined
    },
  }
}
