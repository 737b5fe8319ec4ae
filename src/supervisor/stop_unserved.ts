import type { Catalog } from '../catalog/catalog.ts'
import { listUnserved } from '../catalog/store.ts'
import { stopServer } from '../compute/process/stop_server.ts'
import { busyStores } from '../compute/process/running.ts'
import { homeOf, type Layout, socketDirOf } from '../host/layout.ts'

/** Longer than a fast shutdown takes, also one of a server that replays. */
const STOP_MS = 10_000

/**
 * Stops the servers of this host that are no endpoint's: those of branches that are being made. Call once no worker
 * runs. The operations that started them go on after the next start.
 */
export async function stopUnserved(catalog: Catalog, layout: Layout): Promise<void> {
  const deadline = performance.now() + STOP_MS
  const stores = await listUnserved(catalog, await busyStores(layout))
  await Promise.all(
    stores.map(async ({ id, number }) => {
      const home = homeOf(layout, id)
      const socketDir = socketDirOf(layout, { number })
      while ((await stopServer(home, { socketDir })) === 'pending' && performance.now() < deadline);
    }),
  )
}
