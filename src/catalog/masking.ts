import type { Branch } from './branch.ts'
import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** One column whose values are replaced: by those of an expression in SQL, or by one text. */
export interface MaskingRule {
  readonly database_name: string
  readonly schema_name: string
  readonly table_name: string
  readonly column_name: string
  readonly masking_function?: string
  readonly masking_value?: string
}

/** The rules of an anonymized branch, and the last run that masked its data. */
export interface Masking {
  readonly branch_id: string
  readonly rules: readonly MaskingRule[]
  /** The progress of the run, or the reason of its failure. */
  readonly message: string | null
  readonly created_at: string
  readonly updated_at: string
  readonly started_at: string | null
  readonly completed_at: string | null
  readonly failed_at: string | null
  readonly masked_columns: number | null
}

/** Makes a new branch an anonymized one: clients may enter once its data were masked. */
export async function insertMasking(tx: Db, branchId: string, rules: readonly MaskingRule[]): Promise<void> {
  await tx.rows(sql`update branch set masking_state = 'initialized' where id = ${branchId}`)
  await tx.rows(sql`insert into masking (branch_id, rules) values (${branchId}, ${JSON.stringify(rules)}::jsonb)`)
}

export function findMasking(db: Db, branchId: string): Promise<Masking | undefined> {
  return db.row(sql`select * from masking where branch_id = ${branchId}`)
}

export async function setMaskingRules(tx: Db, branchId: string, rules: readonly MaskingRule[]): Promise<void> {
  await tx.rows(sql`
    update masking set rules = ${JSON.stringify(rules)}::jsonb, updated_at = clock_timestamp()
     where branch_id = ${branchId}`)
}

/** Records that a run is queued. From now on no client may enter. */
export async function setAnonymizing(tx: Db, branchId: string): Promise<void> {
  await setMaskingState(tx, branchId, 'anonymizing')
  await tx.rows(sql`
    update masking set message = null, started_at = clock_timestamp(), completed_at = null, failed_at = null,
           masked_columns = null, updated_at = clock_timestamp() where branch_id = ${branchId}`)
}

/** Records the progress of a run. */
export async function setMaskingProgress(db: Db, branchId: string, message: string): Promise<void> {
  await db.rows(sql`
    update masking set message = ${message}, updated_at = clock_timestamp() where branch_id = ${branchId}`)
}

/** Records that the data were masked: clients may enter. */
export async function setAnonymized(tx: Db, branchId: string, columns: number): Promise<void> {
  await setMaskingState(tx, branchId, 'anonymized')
  await tx.rows(sql`
    update store set backup_due_at = clock_timestamp() where id = (select store_id from branch where id = ${branchId})`)
  await tx.rows(sql`
    update masking set message = null, completed_at = clock_timestamp(), masked_columns = ${columns},
           updated_at = clock_timestamp() where branch_id = ${branchId}`)
}

/** Records that a run has failed: the data may be masked in part, and stay closed to clients. */
export async function setMaskingFailed(tx: Db, branchId: string, message: string): Promise<void> {
  await setMaskingState(tx, branchId, 'error')
  await tx.rows(sql`
    update masking set message = ${message}, completed_at = clock_timestamp(), failed_at = clock_timestamp(),
           updated_at = clock_timestamp() where branch_id = ${branchId}`)
}

async function setMaskingState(tx: Db, branchId: string, state: Branch['masking_state']): Promise<void> {
  await tx.rows(sql`update branch set masking_state = ${state}, updated_at = clock_timestamp() where id = ${branchId}`)
}
