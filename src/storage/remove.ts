import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, opendir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { withTimeout } from '../race.ts'
import type { Fence, Progress } from '../host/fence.ts'
import { unfinishedBaseOf } from './base_place.ts'
import { unfinishedSpareOf } from './spare.ts'
import type { StoreRef } from './storage.ts'
import { fenceText, runEffect } from '../host/effect.ts'
import { spawnGivingWay } from '../host/give_way.ts'
import { type Layout, type Log, homeOf, isId, logDirOf, socketDirOf } from '../host/layout.ts'
import { removeSharedMemory } from './shared_memory.ts'
import { BARE_ENVIRONMENT } from '../host/script.ts'
import { waitStopped } from '../host/server_lock.ts'

/** Removal needs a prompt shutdown, not a clean one. SIGINT comes first so that sessions learn the reason. */
const URGES = [
  { signal: 'INT', seconds: 2 },
  { signal: 'QUIT', seconds: 1 },
  { signal: 'KILL', seconds: 1 },
] as const

/**
 * Stops the server of a store and removes all its data. First the directory is moved away under its lock, and a
 * note is left so that no late attempt can recreate it; then the moved directory is deleted.
 * @throws FencedError when a newer attempt acted on this store
 */
export async function removeStored(layout: Layout, store: StoreRef, fence: Fence, log: Log): Promise<Progress> {
  const home = homeOf(layout, store.id)
  if ((await moveAway(layout, store, fence, log)) === 'pending') return 'pending'
  const trash = (await readdir(layout.trash))
    .filter((name) => name.startsWith(`${store.id}.`))
    .map((name) => join(layout.trash, name))
  for (const directory of trash) await removeSharedMemory(join(directory, 'pgdata'))
  const leftovers = [...trash, logDirOf(layout, store.id), socketDirOf(layout, store)]
  await deleteTrees(home, leftovers)
  return leftovers.some((path) => existsSync(path)) || existsSync(home) ? 'pending' : 'done'
}

async function moveAway(layout: Layout, store: StoreRef, fence: Fence, log: Log): Promise<Progress> {
  const home = homeOf(layout, store.id)
  await mkdir(layout.trash, { recursive: true })
  for (const { signal, seconds } of URGES) {
    const places = [join(layout.removed, store.id), join(layout.trash, store.id)]
    const outcome = await runEffect(['remove', home, fenceText(fence), ...places, signal])
    if (outcome === 'done') return 'done'
    // Gone: another attempt moved it between the check and the lock. The next turn sees that.
    if (outcome !== 'held' || (await waitStopped(home, seconds)) === 'done') continue
    log('warn', 'a server that is to be removed did not end when asked', { store: store.id, signal })
  }
  return 'pending'
}

const DELETE_CAP_MS = 3000

const REMOVE = 'exec rm -rf -- "$@"'
/** An ordinary user cannot empty a directory that code in a compute has closed; find opens each before it descends. */
const OPEN_AND_REMOVE = `find "$@" -type d ! -perm -700 -exec chmod u+rwx {} ';' ; ${REMOVE}`

/** The deletions under way, by home: a step that begins again waits for the one that runs. */
const deletions = new Map<string, Promise<void>>()

/** Deletes directories in a separate process, which continues when this one ends or when it takes long. */
async function deleteTrees(home: string, paths: readonly string[]): Promise<void> {
  const running = deletions.get(home) ?? startDeletion(paths).finally(() => deletions.delete(home))
  deletions.set(home, running)
  await withTimeout(running, DELETE_CAP_MS, undefined)
}

async function startDeletion(paths: readonly string[]): Promise<void> {
  const script = process.getuid?.() === 0 ? REMOVE : OPEN_AND_REMOVE
  const child = spawnGivingWay('sh', ['-c', script, 'sh', ...paths], { stdio: 'ignore', env: BARE_ENVIRONMENT })
  child.unref()
  await once(child, 'exit')
}

/** Ids of stores that are handled together. */
const BATCH = 1_000

/**
 * Calls `visit` with the ids of all stores, a batch at a time: a host may have more than are good to hold in memory.
 * One whose removal has not ended may come twice.
 */
export async function visitStores(layout: Layout, visit: (ids: string[]) => Promise<void>): Promise<void> {
  for (const directory of [layout.branches, layout.trash, layout.logs]) {
    const batch: string[] = []
    for await (const name of namesIn(directory)) {
      const [id = ''] = name.split('.')
      if (id === 'catalog' || !isId(id) || (directory === layout.logs && existsSync(homeOf(layout, id)))) continue
      if (batch.push(id) === BATCH) await visit(batch.splice(0))
    }
    if (batch.length > 0) await visit(batch)
  }
}

/** The ids of all stores. */
export async function storedIds(layout: Layout): Promise<string[]> {
  const ids = new Set<string>()
  await visitStores(layout, async (batch) => batch.forEach((id) => ids.add(id)))
  return [...ids].sort()
}

/** The names in a directory, of which a few are in memory; an empty list if it is missing. */
async function* namesIn(directory: string): AsyncGenerator<string> {
  const opened = await opendir(directory, { bufferSize: BATCH }).catch(() => undefined)
  if (opened) for await (const { name } of opened) yield name
}

const NOTE_DAYS = 7

/** Deletes removal notes so old that no attempt from before can still be alive. */
export async function expireRemovalNotes(layout: Layout): Promise<void> {
  for (const id of await readdir(layout.removed).catch(() => [])) {
    const path = join(layout.removed, id)
    const found = await stat(path).catch(() => undefined)
    if (found && Date.now() - found.mtimeMs > NOTE_DAYS * 86_400_000) await rm(path, { force: true })
  }
}

/** Ends every running copy. A later request starts it over. */
export async function endCopies(layout: Layout): Promise<void> {
  for await (const id of namesIn(layout.branches)) {
    const home = homeOf(layout, id)
    const filling = [home, unfinishedBaseOf(home), unfinishedSpareOf(home)]
    for await (const base of namesIn(join(home, 'bases'))) filling.push(unfinishedSpareOf(join(home, 'bases', base)))
    for (const filled of filling) {
      if (!existsSync(join(filled, 'copier'))) continue
      await runEffect(['end', filled])
      await waitStopped(filled, 2)
    }
  }
}
