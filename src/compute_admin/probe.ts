import { OWN_ROLES } from '../postgres/own_session.ts'
import type { AdminSession } from './session.ts'

/**
 * Writes to the disk of a compute, and reads the row back, in Neap's own database.
 * Errors: Postgres's own; Error (the row read differs from the row written).
 */
export async function probe(session: AdminSession): Promise<void> {
  // An endpoint's settings may make transactions read only, or commits wait for other servers, or not even for the
  // disk.
  await session.query('begin read write')
  await session.query('set local synchronous_commit = local')
  await session.query(`create table if not exists public.availability
    (id boolean primary key default true check (id), number bigint not null, at timestamptz not null)`)
  const [written] = await session.query<{ number: string }>(`
    insert into public.availability as a (number, at) values (1, clock_timestamp())
    on conflict (id) do update set number = a.number + 1, at = excluded.at returning number::text`)
  await session.query('commit')
  const [read] = await session.query<{ number: string }>('select number::text from public.availability')
  if (!written || read?.number !== written.number)
    throw new Error(`the probe was written as ${written?.number} and read as ${read?.number}`)
}

/** Whether a client other than Neap is connected, possibly past the proxies. */
export async function hasClients(session: AdminSession): Promise<boolean> {
  const found = await session.query(`
    select from pg_stat_activity
     where backend_type in ('client backend', 'walsender') and usename not in ${OWN_ROLES} limit 1`)
  return found.length > 0
}
