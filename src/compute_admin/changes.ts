import type { Change, ConfigChange } from '../catalog/config_change.ts'
import { createDatabase, dropDatabase, renameDatabase, setOwner } from './databases.ts'
import { ChangeRefused, createRole, disownRole, setPassword } from './roles.ts'
import { type AdminSession, identifier } from './session.ts'

/** What became of changes: `settled` need not be told to Postgres again, either since they are made or since they were refused. */
export interface ChangesOutcome {
  readonly settled: number[]
  /** What Postgres will never take. */
  readonly refused: ChangeFailure[]
  /** What could not be done now. */
  readonly postponed: ChangeFailure[]
  /** The time was over before all were tried. */
  readonly unfinished: boolean
}

export interface ChangeFailure {
  readonly operation_id: string | null
  /** Which change, and what Postgres said. */
  readonly message: string
}

/** How long one call goes on, in milliseconds: a worker that is silent for much longer loses its operation. */
const PATIENCE_MS = 4_000

/**
 * Tells Postgres changes of roles and databases, in order, each exactly once: the compute remembers in a table of Neap's own database
 * which it has had, in the transaction of the change where Postgres allows that. It may be interrupted anywhere and run again,
 * also in a branch that inherited the table. A change that cannot be made holds up only those that name the same role or database.
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
      // DROP DATABASE stands in no transaction. What is to go is remembered first, so that a second try never drops its successor.
      const name = await targetOf(session, id, change.name)
      if (name !== undefined) await dropDatabase(session, name)
      return remember(session, id)
    }
  }
}

/** A compute's memory of what it has had. Old rows go: no branch is being made for so long. */
async function readLedger(session: AdminSession, changes: readonly ConfigChange[]): Promise<Set<number>> {
  await session.query('set client_min_messages = warning')
  await session.query(`create table if not exists public.config_change
    (id bigint primary key, target oid, done boolean not null, at timestamptz not null default clock_timestamp())`)
  await session.query(`delete from public.config_change where at < clock_timestamp() - interval '30 days'`)
  const ids = changes.map((change) => change.id)
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

/** The present name of the database that a change is to drop: the one that had the given name when it was first tried. */
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

/** Makes a change and remembers it, in one transaction. */
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

/** The changes that could not be made, and what must therefore wait: what they change, and changes of what they rest on. */
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

/** What an error means (Postgres manual, "PostgreSQL Error Codes"): try again, or never. Throws those that are the session's own end. */
function judge(error: unknown): 'refused' | 'postponed' {
  if (error instanceof ChangeRefused) return 'refused'
  const code = (error as { code?: unknown }).code
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || /^(08|57P)/.test(code)) throw error
  return /^(25|40|53|55|57|58|XX|2BP01)/.test(code) ? 'postponed' : 'refused'
}
