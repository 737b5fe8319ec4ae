import { type Static, Type } from 'typebox'
import type { BackupDrill } from '../catalog/backup_drill.ts'
import type { StoreBackup } from '../catalog/store_backup.ts'

const time = (description: string) => Type.String({ format: 'date-time', description })

export const BranchBackup = Type.Object(
  {
    made_at: Type.Optional(time('When its newest backup was made; absent before there is one')),
    saved_until: Type.Optional(time('Commits until then are in the repository; absent before there is a backup')),
    is_saved: Type.Boolean({ description: 'Whether it sleeps, and all of it is in the repository' }),
    bytes: Type.Optional(Type.Integer({ description: 'The size of that backup' })),
    is_failing: Type.Boolean({ description: 'Whether it could not be backed up the last time; its operator sees why' }),
    drills: Type.Array(
      Type.Object({
        started_at: time('When its newest backup was fetched, to be recovered and checked'),
        finished_at: Type.Optional(time('Absent while it runs')),
        is_good: Type.Optional(Type.Boolean()),
        saved_until: Type.Optional(time('Commits until then were in it')),
        tables: Type.Optional(Type.Integer()),
        indexes: Type.Optional(Type.Integer()),
        rows: Type.Optional(Type.Integer()),
        error: Type.Optional(
          Type.String({ description: 'The damage, if it was recovered; else its operator sees why' }),
        ),
      }),
      { description: 'Drills: its newest backup restored and checked, the newest drill first' },
    ),
  },
  { $id: 'BranchBackup' },
)

/** The backup of a branch as clients see it. */
export function branchBackupView(
  backup: StoreBackup | undefined,
  drills: readonly BackupDrill[],
): Static<typeof BranchBackup> {
  return {
    ...optional({
      made_at: backup?.made_at,
      saved_until: backup?.pushed_at,
      bytes: backup?.bytes,
    }),
    is_failing: backup !== undefined && backup.error !== null,
    is_saved: backup !== undefined && backup.label !== null && !backup.is_behind,
    drills: drills.flatMap(({ started_at, finished_at, saved_until, tables, indexes, row_count, error }) =>
      started_at === null
        ? []
        : [
            {
              started_at,
              ...optional({ finished_at, saved_until, tables, indexes, rows: row_count }),
              // Other errors name places of the operator's.
              ...(error !== null && tables !== null && { error }),
              ...(finished_at !== null && { is_good: error === null }),
            },
          ],
    ),
  }
}

/** The fields that have a value. */
const optional = <T extends Record<string, unknown>>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)) as {
    [Name in keyof T]?: NonNullable<T[Name]>
  }
