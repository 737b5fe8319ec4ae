/**
 * Works on items, so many beside each other. A round offers those that there are; those that an earlier round did not
 * reach, or that were worked on longest ago, come first.
 * @param work must not reject
 */
export function createRounds<T extends { readonly id: string }>(places: number, work: (item: T) => Promise<void>) {
  const busy = new Set<string>()
  /** The order in which work on items ended. */
  const ended = new Map<string, number>()
  let count = 0
  let waiting: T[] = []

  async function workOn(item: T): Promise<void> {
    busy.add(item.id)
    await work(item)
    busy.delete(item.id)
    ended.set(item.id, ++count)
    next()
  }

  function next(): void {
    while (busy.size < places) {
      const item = waiting.shift()
      if (!item) return
      if (!busy.has(item.id)) void workOn(item)
    }
  }

  /** Begins a round: items that are not offered any more are left out. */
  return (items: readonly T[]): void => {
    const offered = new Set(items.map(({ id }) => id))
    for (const id of ended.keys()) if (!offered.has(id)) ended.delete(id)
    waiting = items.toSorted((one, other) => (ended.get(one.id) ?? 0) - (ended.get(other.id) ?? 0))
    next()
  }
}
