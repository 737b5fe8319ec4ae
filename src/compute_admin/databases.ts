import { setTimeout as sleep } from 'node:timers/promises'
import type { Change } from '../catalog/config_change.ts'
import { ADMIN_DATABASE } from '../postgres/own_session.ts'
import { ChangeRefused, inDatabase } from './roles.ts'
import { type AdminSession, identifier, literal } from './session.ts'

/** Creates a database, or sets the owner of one that SQL has created meanwhile. */
export async function createDatabase(
  session: AdminSession,
  { name, owner }: Change & { kind: 'create_database' },
): Promise<void> {
  const [database] = await session.query<{ owner: string }>(
    'select pg_get_userbyid(datdba) as owner from pg_database where datname = $1',
    [name],
  )
  // From template0: sessions cannot connect to it, which would block the copy.
  if (!database)
    await session.query(`create database ${identifier(name)} owner ${identifier(owner)} template template0`)
  else if (database.owner !== owner) await setOwner(session, { kind: 'set_database_owner', name, owner })
}

/** Errors: ChangeRefused (the database no longer exists). */
export async function setOwner(
  session: AdminSession,
  { name, owner }: Change & { kind: 'set_database_owner' },
): Promise<void> {
  if (!(await exists(session, name))) throw new ChangeRefused('it was dropped or renamed by SQL')
  await session.query(`alter database ${identifier(name)} owner to ${identifier(owner)}`)
}

/**
 * Renames a database and ends its sessions for that. Errors: ChangeRefused (it no longer exists, or the new name is
 * taken).
 */
export async function renameDatabase(
  session: AdminSession,
  { name, to }: Change & { kind: 'rename_database' },
): Promise<void> {
  if (!(await exists(session, name))) throw new ChangeRefused('it was dropped or renamed by SQL')
  if (await exists(session, to)) throw new ChangeRefused(`there is a database "${to}" already, made by SQL`)
  await endingSessions(session, name, () =>
    session.query(`alter database ${identifier(name)} rename to ${identifier(to)}`),
  )
}

/**
 * Drops a database, and first its sessions, its subscriptions and its prepared transactions, which block DROP DATABASE.
 * The slot of a subscription at its publisher stays: that server may be gone.
 */
export async function dropDatabase(session: AdminSession, name: string): Promise<void> {
  const [found] = await session.query<{ hindered: boolean; half_gone: boolean }>(
    `select exists (select from pg_subscription where subdbid = d.oid)
         or exists (select from pg_prepared_xacts where database = d.datname) as hindered,
            datconnlimit = -2 as half_gone
       from pg_database d where datname = $1`,
    [name],
  )
  if (found?.hindered) await inDatabase(session, name, removeHindrances)
  const database = identifier(name)
  // A database that an interrupted DROP DATABASE left invalid can only be dropped.
  if (!found?.half_gone)
    await session.query(`alter database ${database} with is_template false allow_connections false`)
  await session.query('select pg_terminate_backend(pid, 1000) from pg_stat_activity where datname = $1', [name])
  await endingSessions(session, name, () => session.query(`drop database ${database} with (force)`))
}

async function removeHindrances(session: AdminSession): Promise<void> {
  const subscriptions = await session.query<{ name: string }>(
    `select subname as name from pg_subscription
      where subdbid = (select oid from pg_database where datname = current_database())`,
  )
  for (const { name } of subscriptions) {
    const subscription = identifier(name)
    await session.query(`alter subscription ${subscription} disable`)
    await session.query(`alter subscription ${subscription} set (slot_name = none)`)
    await session.query(`drop subscription ${subscription}`)
  }
  const prepared = await session.query<{ gid: string }>(
    'select gid from pg_prepared_xacts where database = current_database()',
  )
  for (const { gid } of prepared) await session.query(`rollback prepared ${literal(gid)}`)
}

/**
 * Runs a statement that needs exclusive use of a database. The statement locks the database, so that no session can
 * enter, and then waits for the existing sessions, which are terminated meanwhile.
 */
async function endingSessions(session: AdminSession, name: string, statement: () => Promise<unknown>): Promise<void> {
  let over = false
  const ending = session.beside(ADMIN_DATABASE, async (other) => {
    while (!over) {
      await other.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
      await sleep(20)
    }
  })
  // Its failures show in the waiting statement.
  ending.catch(() => {})
  try {
    await statement()
  } finally {
    over = true
    await ending.catch(() => {})
  }
}

async function exists(session: AdminSession, name: string): Promise<boolean> {
  return (await session.query('select from pg_database where datname = $1', [name])).length > 0
}
