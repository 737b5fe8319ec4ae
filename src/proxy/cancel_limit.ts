import { networkOf } from '../network.ts'

/** So many requests to cancel may come from one network in so long: a pool of clients that all give up at once stays below. */
const MOST = 200
const WINDOW_MS = 10_000

/** More networks than that are not told apart. */
const MAX_NETWORKS = 10_000

/** Says of each request, by the address it comes from, whether it is within what its network may send. Its memory is bounded. */
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
    return count <= MOST
  }
}
