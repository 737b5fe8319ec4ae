/** Checks what a repository has. Each problem is a line. */
import { UsageError } from '../errors.ts'
import { nextSegment, segmentPosition } from '../postgres/wal.ts'
import { fetchFiles, findSeries } from './installation_files.ts'
import { BackupError } from './pgbackrest.ts'
import type { Repository } from './repository.ts'
import { listBackups, listWal, stanzaOf } from './stanza.ts'
import { fetchWalEnd } from './wal_end.ts'

/**
 * Reads the backups and WAL of a store, and the files that describe them.
 * @param isPushed whether the end of its WAL is known to be there
 * Errors: BackupError (the repository cannot be read).
 */
export async function verifyStore(repository: Repository, store: string, isPushed: boolean): Promise<string[]> {
  const name = stanzaOf(repository, store)
  const { output } = await repository.run(['verify', `--stanza=${name}`, '--output=text'])
  const report = output.toString('utf8').trim()
  const described = [
    `archive/${name}/archive.info`,
    `backup/${name}/backup.info`,
    ...(await listBackups(repository, store)).map(({ label }) => `backup/${name}/${label}/backup.manifest`),
  ]
  const problems = /^status: error/m.test(report) ? [report] : []
  for (const file of described)
    if (!(await hasEqualCopy(repository, file))) problems.push(`${file} or its copy is damaged`)
  const gap = await problemOf(async () => findGap(repository, store, isPushed))
  return gap === undefined ? problems : [...problems, gap]
}

/** Reads the keys of an installation, and the facts that it is found by. Errors: BackupError (it cannot be read). */
export async function verifyInstallation(repository: Repository): Promise<string[]> {
  const facts = await problemOf(async () => ((await findSeries(repository)) ? undefined : 'its facts are missing'))
  const files = await problemOf(async () => ((await fetchFiles(repository)) ? undefined : 'its keys are missing'))
  return [facts, files].filter((problem) => problem !== undefined)
}

/** A sealed file that does not open is a problem of its own. */
async function problemOf(check: () => Promise<string | undefined>): Promise<string | undefined> {
  try {
    return await check()
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
}

const LOOKS = 2

/** pgBackRest goes on with either of the two without a word. */
async function hasEqualCopy(repository: Repository, file: string): Promise<boolean> {
  const read = async (name: string) => (await repository.run(['repo-get', name])).output
  // They are written one after the other.
  for (let look = 0; look < LOOKS; look++) {
    try {
      if ((await read(file)).equals(await read(`${file}.copy`))) return true
    } catch (error) {
      if (!(error instanceof BackupError)) throw error
    }
  }
  return false
}

/** The first gap in the WAL between the oldest backup and the end; undefined when there is none. */
async function findGap(repository: Repository, store: string, isPushed: boolean): Promise<string | undefined> {
  // In this order, WAL that is pushed or removed meanwhile makes no gap.
  const end = await fetchWalEnd(repository, store)
  const stored = new Set((await listWal(repository, store)).map(({ segment }) => segment))
  // A backup that replays what lies in it is followed by no WAL.
  const first = (await listBackups(repository, store)).find(({ recovery }) => !recovery)
  if (!first) return undefined
  if (isPushed && !end) return 'the end of its WAL is missing'
  const last = [...stored].sort().at(-1)
  const upto = end ? segmentPosition(end.segment) : last === undefined ? 0 : segmentPosition(last)
  for (let name = first.segment; segmentPosition(name) < upto; name = nextSegment(name))
    if (!stored.has(name)) return `WAL is missing: ${name}; moments from then until the next backup are lost`
  return undefined
}
