import type { Repository } from './repository.ts'
import { listBackups, stanzaOf } from './stanza.ts'
import { dropWalEnd, fetchWalEnd } from './wal_end.ts'

const DAY_MS = 86_400_000

/**
 * Removes from the repository the stores of this series that are gone for longer than backups are kept: pgBackRest
 * removes old backups only when it makes another one of the same store. Returns the removed.
 * @param findGone which of these stores the installation does not have
 */
export async function removeAbandoned(
  repository: Repository,
  findGone: (ids: string[]) => Promise<string[]>,
  now = new Date(),
): Promise<string[]> {
  const prefix = stanzaOf(repository, '')
  const stanzas = (await repository.list('backup')).filter((name) => name.startsWith(prefix))
  const removed: string[] = []
  for (const store of await findGone(stanzas.map((name) => name.slice(prefix.length)))) {
    const end = await fetchWalEnd(repository, store)
    const backup = (await listBackups(repository, store)).at(-1)
    const lastMs = Math.max(
      ...[end?.read_at, backup?.made_at].map((time) => Date.parse(time ?? '')).filter(Number.isFinite),
    )
    if (+now - lastMs < repository.keptDays * DAY_MS) continue
    for (const kind of ['archive', 'backup'])
      await repository.run(['repo-rm', '--recurse', `${kind}/${stanzaOf(repository, store)}`])
    await dropWalEnd(repository, store)
    removed.push(store)
  }
  return removed
}
