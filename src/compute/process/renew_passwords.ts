import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { StoreSecrets } from '../../secrets/stores.ts'
import { findServer } from './server.ts'
import { homeOf, layoutOf } from '../../host/layout.ts'
import { passwordNote } from '../../storage/password_note.ts'
import { storedIds } from '../../storage/remove.ts'
import { busyStores } from './running.ts'
import { ensureOwnPasswords } from './store_password.ts'

interface Place {
  readonly dataDir: string
  readonly runtimeDir: string
}

/** A store whose server runs, and the directory of its socket. `home` is set for a store that is no branch's. */
export interface RunningStore {
  readonly id: string
  readonly socketDir: string
  readonly home?: string
}

/** Gives Neap's own roles in a running store its current passwords. One that has ended gets them at its next start. */
export async function renewPasswords(place: Place, store: RunningStore, secrets: StoreSecrets): Promise<void> {
  const home = store.home ?? homeOf(layoutOf(place), store.id)
  try {
    await ensureOwnPasswords({ home, socketDir: store.socketDir }, store.id, secrets)
  } catch (error) {
    if (await findServer(home)) throw error
  }
}

/** The stores whose passwords are not the current ones: all, or only those in which a server may run. */
export async function storesWithOtherPasswords(
  place: Place,
  secrets: StoreSecrets,
  { running }: { running: boolean },
): Promise<string[]> {
  const layout = layoutOf(place)
  const ids = running ? await busyStores(layout) : await storedIds(layout)
  return ids.filter((id) => {
    const home = join(layout.branches, id)
    return existsSync(join(home, 'pgdata')) && passwordNote(home) !== secrets.note(id)
  })
}
