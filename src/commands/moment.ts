import type { Branch } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { findEndOfWal } from '../catalog/compute.ts'
import { findBranchEndpoint } from '../catalog/endpoint.ts'
import { listAncestors, type StoreHistory } from '../catalog/history.ts'
import type { Project } from '../catalog/project.ts'
import { AppError } from '../errors.ts'
import { beginningOf, isAlive, planRestoration, type StoreMoment, type Target } from '../operations/moment.ts'
import { lsnPosition, lsnText } from '../postgres/wal.ts'
import type { CommandContext } from './command.ts'
import type { Look } from './look.ts'

/** The fields of a request that name a moment, by their names there: those of positions in the WAL end in `lsn`. */
export type AskedMoment = Readonly<Record<string, string | undefined>>

/** RFC 3339, with up to as many digits of a second as Postgres counts. */
const TIMESTAMP = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(Z|[+-]\d\d:\d\d)$/i

/**
 * The moment of a branch that a request names; undefined for its present.
 * @param look the look at its compute
 * Errors: INVALID_REQUEST, NOT_ALLOWED with the moments that there are.
 */
export async function requireMoment(
  { db }: CommandContext,
  project: Project,
  branch: Branch,
  asked: AskedMoment,
  look: Look | undefined,
): Promise<StoreMoment | undefined> {
  const [named, ...others] = Object.entries(asked).filter(([, value]) => value)
  if (!named) return undefined
  if (others.length > 0) throw new AppError('NOT_ALLOWED', `Give ${named[0]} or ${others[0]?.[0]}, not both.`)
  const [field, text = ''] = named
  const target = field.endsWith('lsn') ? lsnTarget(field, text) : timestampTarget(field, text)
  const refuse = (why: string) => new AppError('NOT_ALLOWED', `${field} (${text}) ${why}`)
  const since = Date.now() - retentionOf(project, branch) * 1000
  const isOld = 'timestamp' in target && Date.parse(target.timestamp) < since
  if ('timestamp' in target && Date.parse(target.timestamp) > Date.now()) throw refuse('is in the future.')
  const end = 'lsn' in target ? (look?.lsn ?? (await endOfWal(db, branch))) : undefined
  if ('lsn' in target && end !== undefined && (lsnPosition(end) ?? 0) < (lsnPosition(target.lsn) ?? 0))
    throw refuse(`is not in the history of the branch, whose WAL ends at ${end} now.`)
  const ancestors = await storeAt(db, branch, target)
  if (!ancestors) throw refuse('is before a restore of the branch, and the data that it had until then was not kept.')
  const [store] = ancestors
  if (!isOld && store?.first_segment === null && isAlive(store, target)) return undefined
  if (isOld || !store || !planRestoration(ancestors, target))
    throw refuse(`is before the history of the branch, which ${await rangeOf(db, project, branch)}.`)
  return { store_id: store.id, target }
}

/** Where the WAL of a branch ends that sleeps; undefined if that is not known. */
async function endOfWal(db: Db, { id, store_id }: Branch): Promise<string | undefined> {
  const endpoint = await findBranchEndpoint(db, id)
  return endpoint && findEndOfWal(db, endpoint.id, store_id ?? '')
}

/**
 * The store that had a branch's data at a moment, followed by its ancestors: the branch's own, the one that it had
 * before a restore, or before the branch was made its parent's. Undefined when that one is removed.
 */
async function storeAt(db: Db, branch: Branch, target: Target): Promise<readonly StoreHistory[] | undefined> {
  let ancestors: readonly StoreHistory[] = await listAncestors(db, branch.store_id ?? '')
  for (let [own] = ancestors; own && !isAlive(own, target); [own] = ancestors) {
    if (own.previous_id !== null) ancestors = await listAncestors(db, own.previous_id)
    else if (ancestors.length === 1) return ancestors
    else ancestors = ancestors.slice(1)
  }
  return ancestors.length === 0 ? undefined : ancestors
}

/** For how many seconds the moments of a branch stay within reach. */
export const retentionOf = (project: Project, branch: Branch): number =>
  branch.history_retention_seconds ?? project.history_retention_seconds

/** Since when the moments of a branch are within reach; undefined before it has a history. */
export async function historyBeginning(db: Db, project: Project, branch: Branch): Promise<Date | undefined> {
  const beginning = await oldestOrigin(db, branch)
  const since = Date.now() - retentionOf(project, branch) * 1000
  return beginning === undefined ? undefined : new Date(Math.max(beginning, since))
}

/** From when on a branch has a history, for its owner. */
async function rangeOf(db: Db, project: Project, branch: Branch): Promise<string> {
  const beginning = await historyBeginning(db, project, branch)
  if (!beginning) return 'begins with its next base, within a minute of its next start'
  return `goes from ${beginning.toISOString()} until now`
}

/** When the oldest data that its moments are reached from were made, in milliseconds since 1970. */
async function oldestOrigin(db: Db, branch: Branch): Promise<number | undefined> {
  let beginning: number | undefined
  let ancestors: readonly StoreHistory[] = await listAncestors(db, branch.store_id ?? '')
  for (let [own] = ancestors; own; [own] = ancestors) {
    beginning = beginningOf(ancestors) ?? beginning
    ancestors = own.previous_id === null ? ancestors.slice(1) : await listAncestors(db, own.previous_id)
  }
  return beginning
}

function lsnTarget(field: string, text: string): Target {
  const position = lsnPosition(text)
  if (position === undefined)
    throw new AppError('INVALID_REQUEST', `invalid request: ${field} is no LSN, such as 0/3000028`)
  return { lsn: lsnText(position) }
}

function timestampTarget(field: string, text: string): Target {
  const [, day, time, fraction = '', zone = ''] = TIMESTAMP.exec(text) ?? []
  const second = Date.parse(`${day}T${time}${zone.toUpperCase()}`)
  // A Date takes the 30th of February for a day in March.
  const isDay = new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day ?? '-')
  if (!isDay || Number.isNaN(second))
    throw new AppError('INVALID_REQUEST', `invalid request: ${field} is no time, such as 2026-01-31T12:00:00Z`)
  // A Date has no microseconds, and Postgres no offset of a whole day.
  return { timestamp: `${new Date(second).toISOString().slice(0, 19)}${fraction}Z` }
}
