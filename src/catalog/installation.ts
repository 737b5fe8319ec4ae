import type { Catalog, Db } from './catalog.ts'
import { IS_UNFINISHED } from './operation.ts'
import { sql } from './sql.ts'

/** The installation that a catalog is of. */
export interface Installation {
  readonly id: string
  /** Begins all fences. Raised when the catalog is found to be older than a disk. */
  readonly epoch: number
}

export async function findInstallation(db: Db): Promise<Installation> {
  return (await db.row<Installation>(sql`select id, epoch from installation`)) as Installation
}

/** More numbers than an installation can have given since the backup that its catalog was restored from. */
const SKIPPED = 2 ** 32

/**
 * Raises the epoch above another one, unless it is higher already. Numbers that disks know go on far above those of the
 * catalog, since it may have given more of them than it knows: of stores, and of changes of roles and databases.
 */
export async function raiseEpoch(catalog: Catalog, above: number): Promise<boolean> {
  return catalog.transaction(async (tx) => {
    const raised = await tx.row(
      sql`update installation set epoch = ${above + 1} where epoch <= ${above} returning epoch`,
    )
    if (!raised) return false
    await tx.rows(sql`
      select setval(name, nextval(name) + ${SKIPPED}::int8)
        from (values (pg_get_serial_sequence('store', 'number')::regclass),
                     (pg_get_serial_sequence('config_change', 'id')::regclass)) sequence (name)`)
    return true
  })
}

/** Whether an attempt is still the last one at its operation. */
export async function isLastAttempt(db: Db, { id, generation }: { id: string; generation: number }): Promise<boolean> {
  const row = await db.row(sql`
    select from operation where id = ${id} and generation = ${generation} and ${IS_UNFINISHED}`)
  return row !== undefined
}
