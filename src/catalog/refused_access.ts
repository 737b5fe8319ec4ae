import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** Maximum records per account; further refusals are summed in one record per kind. */
export const MAX_RECORDS = 1_000
const KEPT_DAYS = 90

/** A kind of refusal and its count. Never contains a key or a password. */
export interface Refusals {
  readonly kind: 'api_key' | 'login' | 'sign_in'
  /** The account of the API key, if the key is known; the account of an endpoint is looked up. */
  readonly accountId?: string | undefined
  /** The number of the API key, the endpoint as the client gave it, or the person; empty if unknown. */
  readonly subject: string
  /** The role of a login, as the client gave it. */
  readonly role: string
  /** The network of the client's address; empty when refusals of several networks are summed. */
  readonly network: string
  readonly count: number
  /** RFC 3339. */
  readonly firstAt: string
  readonly lastAt: string
}

/**
 * Adds refusals to the records. Unknown endpoints and roles are recorded without their names, so that names invented by
 * clients take no room. Refusals without an account are recorded for the account of this Neap's operator.
 */
export async function addRefusals(db: Db, refusals: readonly Refusals[]): Promise<void> {
  const of = <Name extends keyof Refusals>(name: Name) => refusals.map((each) => each[name] ?? null)
  // In key order, so that no two processes deadlock.
  await db.rows(sql`
    with given as (
      select coalesce(g.account_id, e.account_id, (select id from account where is_default)) as account_id, g.kind,
             case g.kind when 'login' then coalesce(e.id, '') else g.subject end as subject,
             coalesce(r.name, '') as role, g.network, sum(g.count) as count,
             min(g.first_at) as first_at, max(g.last_at) as last_at
        from unnest(${of('kind')}::text[], ${of('accountId')}::uuid[], ${of('subject')}::text[], ${of('role')}::text[],
                    ${of('network')}::text[], ${of('count')}::bigint[],
                    ${of('firstAt')}::timestamptz[], ${of('lastAt')}::timestamptz[])
             g (kind, account_id, subject, role, network, count, first_at, last_at)
        left join endpoint e on g.kind = 'login' and e.id = g.subject and e.deleted_at is null
        left join role r on r.branch_id = e.branch_id and r.name = g.role
       group by 1, 2, 3, 4, 5),
    placed as (
      select g.*, a.account_id is not null or
             row_number() over (partition by g.account_id, a.account_id is null)
               + (select count(*)
                    from (select from refused_access o where o.account_id = g.account_id limit ${MAX_RECORDS}) o)
               <= ${MAX_RECORDS} as fits
        from given g left join refused_access a using (account_id, kind, subject, role, network))
    insert into refused_access as a (account_id, kind, subject, role, network, count, first_at, last_at)
    select account_id, kind, case when fits then subject else '' end, case when fits then role else '' end,
           case when fits then network else '' end, sum(count), min(first_at), max(last_at)
      from placed where account_id is not null
     group by 1, 2, 3, 4, 5
     order by 1, 2, 3, 4, 5
    on conflict (account_id, kind, subject, role, network) do update
       set count = a.count + excluded.count, first_at = least(a.first_at, excluded.first_at),
           last_at = greatest(a.last_at, excluded.last_at)`)
}

export interface RefusedAccess {
  readonly kind: Refusals['kind']
  readonly subject: string
  readonly role: string
  readonly network: string
  readonly count: number
  readonly first_at: string
  readonly last_at: string
  /** Of a refused sign-in. */
  readonly person: { readonly name: string; readonly email: string } | null
}

/** The refusals of an account's keys, endpoints and members, latest first. */
export function listRefusals(db: Db, accountId: string): Promise<RefusedAccess[]> {
  return db.rows(sql`
    select r.kind, r.subject, r.role, r.network, r.count, r.first_at, r.last_at,
           case when p.id is not null then jsonb_build_object('name', p.name, 'email', p.email) end as person
      from refused_access r left join person p on r.kind = 'sign_in' and p.id::text = r.subject
     where r.account_id = ${accountId} order by r.last_at desc, r.kind, r.subject, r.role, r.network`)
}

export async function expireRefusals(db: Db, limit: number): Promise<number> {
  const rows = await db.rows(sql`
    delete from refused_access where (account_id, kind, subject, role, network) in (
      select account_id, kind, subject, role, network from refused_access
       where last_at < statement_timestamp() - make_interval(days => ${KEPT_DAYS})
       limit ${limit} for update skip locked)
    returning 1`)
  return rows.length
}
