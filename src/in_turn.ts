import { withTimeout } from './race.ts'

/**
 * Works on items one after the other, but for no longer than `patienceMs` on one before the next is begun as well:
 * short work never runs at once in a burst, and work that hangs keeps no other waiting. Resolves when all have ended.
 * Errors: the first one of `work`, once all were begun.
 * @param goesOn asked before each item; the rest is left out when it returns false
 */
export async function inTurn<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
  patienceMs: number,
  goesOn: () => boolean = () => true,
): Promise<void> {
  const begun: Promise<void>[] = []
  for (const item of items) {
    if (!goesOn()) break
    const each = work(item)
    begun.push(each)
    const settled = each.catch(() => undefined)
    await withTimeout(settled, patienceMs, undefined)
  }
  await Promise.all(begun)
}
