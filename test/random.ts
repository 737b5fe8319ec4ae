/** Draws that follow from a seed. */
export interface Random {
  /** From 0 to 1; may be passed on by itself. */
  readonly next: () => number
  /** A whole number from `least` to `most`. */
  between(least: number, most: number): number
  chance(probability: number): boolean
  /** One of these. Errors: there is none. */
  pick<T>(items: readonly T[]): T
}

/** mulberry32, a published generator of 32 bits: good enough to choose by, and short. */
export function randomFrom(seed: number): Random {
  let state = seed | 0
  function next(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    next,
    between: (least, most) => least + Math.floor(next() * (most - least + 1)),
    chance: (probability) => next() < probability,
    pick<T>(items: readonly T[]): T {
      if (items.length === 0) throw new Error('there is nothing to pick from')
      return items[Math.floor(next() * items.length)] as T
    },
  }
}

/** The draws of one of many who choose side by side: they do not depend on how far the others have come. */
export function randomOf(seed: number, name: string): Random {
  let mixed = 0x811c9dc5
  // FNV-1a.
  for (const byte of Buffer.from(`${seed} ${name}`)) mixed = Math.imul(mixed ^ byte, 0x01000193)
  return randomFrom(mixed)
}
