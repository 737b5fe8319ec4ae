/** Pseudo-random draws from a seed. */
export interface Random {
  /** A number in [0, 1). Does not need `this`. */
  readonly next: () => number
  /** An integer from `least` to `most`, both included. */
  between(least: number, most: number): number
  chance(probability: number): boolean
  /** One of these items. Errors: the list is empty. */
  pick<T>(items: readonly T[]): T
}

/** mulberry32, a published 32-bit generator, short and sufficient for choices. */
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

/**
 * A separate sequence for each of several concurrent actors, so that their draws do not depend on each other's
 * progress.
 */
export function randomOf(seed: number, name: string): Random {
  let mixed = 0x811c9dc5
  // FNV-1a.
  for (const byte of Buffer.from(`${seed} ${name}`)) mixed = Math.imul(mixed ^ byte, 0x01000193)
  return randomFrom(mixed)
}
