import type { Db } from './catalog.ts'
import type { ConnectTarget, Endpoint } from './endpoint.ts'
import { sql } from './sql.ts'

/** What the catalog knows of a role that would log in at an endpoint. */
export interface RoleLogin extends ConnectTarget, Pick<Endpoint, 'disabled' | 'pooler_enabled'> {
  /** As Postgres is to have it, null where there is no such role or it has no password. */
  readonly verifier: string | null
  /** Whether that is all there is to know while no compute runs: the last one has said before it stopped what users had changed. */
  readonly noted: boolean
  /** The addresses that may connect, if not all, as a JSON array: of the project's settings those that hold for this branch. */
  readonly allowed_ips: string | null
}

/** Nothing where there is no such endpoint. */
export function findLogin(db: Db, endpointId: string, role: string): Promise<RoleLogin | undefined> {
  return db.row(sql`
    select e.disabled, e.pooler_enabled, e.current_state, e.holding_operation_id, e.compute_host, e.compute_port, e.compute_pid, e.compute_store_id,
           left(r.verifier, 1024) as verifier, b.noted,
           case when b.protected or not coalesce((p.settings #>> '{allowed_ips,protected_branches_only}')::boolean, false)
                then (p.settings #> '{allowed_ips,ips}')::text end as allowed_ips
      from endpoint e
      join project p on p.id = e.project_id and p.deleted_at is null
      join branch b on b.id = e.branch_id
      left join role r on r.branch_id = e.branch_id and r.name = ${role}
     where e.id = ${endpointId} and e.deleted_at is null`)
}
