import type { Db } from './catalog.ts'
import { COMPUTE_COLUMNS, type ConnectTarget } from './compute.ts'
import type { Endpoint } from './endpoint.ts'
import { sql } from './sql.ts'

/** The catalog's data for the login of a role at an endpoint. */
export interface RoleLogin
  extends
    ConnectTarget,
    Pick<
      Endpoint,
      'account_id' | 'project_id' | 'disabled' | 'pooler_enabled' | 'writes_refused' | 'passwordless_access'
    > {
  /** The verifier wanted in Postgres; null if there is no such role or it has no password. */
  readonly verifier: string | null
  /** Whether the verifier is current while no compute runs: the last one reported changes by SQL before it stopped. */
  readonly noted: boolean
  /**
   * The addresses that may connect, as a JSON array: the project's list if it applies to this branch. Null allows all.
   */
  readonly allowed_ips: string | null
  /** The data of its branch are still to be masked (masking.ts). */
  readonly is_closed: boolean
}

/** Returns undefined when there is no such endpoint. */
export function findLogin(db: Db, endpointId: string, role: string): Promise<RoleLogin | undefined> {
  return db.row(sql`
    select e.account_id, e.project_id, e.disabled, e.pooler_enabled, e.writes_refused, e.passwordless_access,
           e.current_state, e.holding_operation_id, e.compute_id, ${COMPUTE_COLUMNS},
           left(r.verifier, 1024) as verifier, b.noted,
           coalesce(b.masking_state <> 'anonymized', false) as is_closed,
           case when b.protected
                  or not coalesce((p.settings #>> '{allowed_ips,protected_branches_only}')::boolean, false)
                then (p.settings #> '{allowed_ips,ips}')::text end as allowed_ips
      from endpoint e
      join project p on p.id = e.project_id and p.deleted_at is null
      join branch b on b.id = e.branch_id
      left join compute c on c.id = e.compute_id
      left join role r on r.branch_id = e.branch_id and r.name = ${role}
     where e.id = ${endpointId} and e.deleted_at is null`)
}
