import { networkOf } from '../../network.ts'

/** Cancel requests per network and window. A client pool that cancels everywhere at once stays below. */
const MAX_PER_WINDOW = 200
const WINDOW_MS = 10_000

/** At this many networks all counts are reset. */
const MAX_NETWORKS = 10_000

/** Returns a function that counts requests by address and returns whether one is within its network's limit. */
export function createCancelLimit(now = () => performance.now()): (address: string | undefined) => boolean {
  const counts = new Map<string, number>()
  let since = now()

  return (address) => {
    if (now() - since >= WINDOW_MS || counts.size >= MAX_NETWORKS) {
      counts.clear()
      since = now()
    }
    const network = networkOf(address)
    const count = (counts.get(network) ?? 0) + 1
    counts.set(network, count)
    return count <= MAX_PER_WINDOW
  }
}
