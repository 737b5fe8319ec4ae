import type { Change, ConfigChange } from '../catalog/config_change.ts'
import { createDatabase, dropDatabase, renameDatabase, setOwner } from './databases.ts'
import { ChangeRefused, createRole, disownRole, setPassword } from './roles.ts'
import { type AdminSession, identifier } from './session.ts'

/** The result of changes. `settled` ones are made or refused, and are not applied again. */
export interface ChangesOutcome {
  readonly settled: number[]
  /** Changes that Postgres will never accept. */
  readonly refused: ChangeFailure[]
  /** Changes that failed for now. */
  readonly postponed: ChangeFailure[]
  /** The deadline passed before all were tried. */
  readonly unfinished: boolean
}

export interface ChangeFailure {
  readonly operation_id: string | null
  /** The change, and the error of Postgres. */
  readonly message: string
}

/** Deadline of one call in milliseconds: a worker that is silent for much longer loses its operation. */
const PATIENCE_MS = 4_000

/**
 * Applies changes of roles and databases to Postgres in order, each exactly once: a table in Neap's own database of the
 * compute records the applied ones, in the transaction of the change where Postgres allows that. The call may be
 * interrupted anywhere and repeated, also in a branch that inherited the table. A failed change delays only changes
 * that name the same role or database.
 */
export async function applyChanges(session: AdminSession, changes: readonly ConfigChange[]): Promise<ChangesOutcome> {
  const outcome: ChangesOutcome = { settled: [], refused: [], postponed: [], unfinished: false }
  if (changes.length === 0) return outcome
  const had = await readLedger(session, changes)
  await session.query(`set lock_timeout = '1s'`)
  const held = new Held()
  const deadline = performance.now() + PATIENCE_MS
  for (const { id, change, operation_id } of changes) {
    if (had.has(id)) {
      outcome.settled.push(id)
      continue
    }
    if (performance.now() > deadline) return { ...outcome, unfinished: true }
    if (held.hinders(change)) {
      held.add(change)
      continue
    }
    try {
      await applyChange(session, id, change)
      outcome.settled.push(id)
    } catch (error) {
      const verdict = judge(error)
      const failure = { operation_id, message: `${change.kind} "${change.name}": ${(error as Error).message}` }
      if (verdict === 'refused') {
        await remember(session, id)
        outcome.settled.push(id)
        outcome.refused.push(failure)
      } else {
        outcome.postponed.push(failure)
        held.add(change)
      }
    }
  }
  return outcome
}

async function applyChange(session: AdminSession, id: number, change: Change): Promise<void> {
  switch (change.kind) {
    case 'create_role':
      return once(session, id, () => createRole(session, change))
    case 'set_password':
      return once(session, id, () => setPassword(session, change))
    case 'drop_role': {
      const found = await disownRole(session, change.name)
      return once(session, id, async () => {
        if (found) await session.query(`drop role ${identifier(change.name)}`)
      })
    }
    case 'create_database':
      await createDatabase(session, change)
      return remember(session, id)
    case 'rename_database':
      return once(session, id, () => renameDatabase(session, change))
    case 'set_database_owner':
      return once(session, id, () => setOwner(session, change))
    case 'drop_database': {
      // DROP DATABASE cannot run in a transaction. Its target is recorded first, so that a retry never drops its
      // successor.
      const name = await targetOf(session, id, change.name)
      if (name !== undefined) await dropDatabase(session, name)
      return remember(session, id)
    }
  }
}

/** Reads the record of applied changes. Old rows are deleted: the creation of a branch never takes that long. */
async function readLedger(session: AdminSession, changes: readonly ConfigChange[]): Promise<Set<number>> {
  await session.query('set client_min_messages = warning')
  await session.query(`create table if not exists public.config_change
    (id bigint primary key, target oid, done boolean not null, at timestamptz not null default clock_timestamp())`)
  const ids = changes.map((change) => change.id)
  await session.query(
    `delete from public.config_change where at < clock_timestamp() - interval '30 days' and id <> all ($1::bigint[])`,
    [ids],
  )
  const rows = await session.query<{ id: string }>(
    'select id from public.config_change where done and id = any ($1::bigint[])',
    [ids],
  )
  return new Set(rows.map((row) => Number(row.id)))
}

async function remember(session: AdminSession, id: number): Promise<void> {
  await session.query(
    'insert into public.config_change (id, done) values ($1, true) on conflict (id) do update set done = true',
    [id],
  )
}

/** The current name of the database that a change drops: the one that had the given name at the first attempt. */
async function targetOf(session: AdminSession, id: number, name: string): Promise<string | undefined> {
  await session.query(
    `insert into public.config_change (id, done, target)
     select $1, false, oid from pg_database where datname = $2 on conflict (id) do nothing`,
    [id, name],
  )
  const [target] = await session.query<{ name: string }>(
    'select d.datname as name from public.config_change c join pg_database d on d.oid = c.target where c.id = $1',
    [id],
  )
  return target?.name
}

/** Makes a change and records it, in one transaction. */
async function once(session: AdminSession, id: number, work: () => Promise<void>): Promise<void> {
  await session.query('begin')
  try {
    await work()
    await remember(session, id)
    await session.query('commit')
  } catch (error) {
    await session.query('rollback').catch(() => {})
    throw error
  }
}

/**
 * Failed changes. A later change waits if it changes a role or database that they change or need, or needs one that
 * they change.
 */
class Held {
  readonly #changed = new Set<string>()
  readonly #needed = new Set<string>()

  add(change: Change): void {
    const { changes, needs } = subjectsOf(change)
    for (const subject of changes) this.#changed.add(subject)
    for (const subject of needs) this.#needed.add(subject)
  }

  hinders(change: Change): boolean {
    const { changes, needs } = subjectsOf(change)
    return (
      changes.some((subject) => this.#changed.has(subject) || this.#needed.has(subject)) ||
      needs.some((subject) => this.#changed.has(subject))
    )
  }
}

function subjectsOf(change: Change): { changes: string[]; needs: string[] } {
  if ('owner' in change) return { changes: [`database ${change.name}`], needs: [`role ${change.owner}`] }
  if ('to' in change) return { changes: [`database ${change.name}`, `database ${change.to}`], needs: [] }
  const kind = change.kind === 'drop_database' ? 'database' : 'role'
  return { changes: [`${kind} ${change.name}`], needs: [] }
}

/**
 * Classifies an error (Postgres manual, "PostgreSQL Error Codes"): retry, or never. Throws errors that end the session.
 */
function judge(error: unknown): 'refused' | 'postponed' {
  if (error instanceof ChangeRefused) return 'refused'
  const code = (error as { code?: unknown }).code
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || /^(08|57P)/.test(code)) throw error
  return /^(25|40|53|55|57|58|XX|2BP01)/.test(code) ? 'postponed' : 'refused'
}
