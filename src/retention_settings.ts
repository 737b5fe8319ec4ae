import { type Setting, whole } from './setting_kinds.ts'

/** How many days one kind of rows is kept. */
const days = (env: string, most: number, fallback: number, about: string): Setting<number> => ({
  env,
  about,
  fallback: () => fallback,
  parse: whole(1, most),
  expects: `days from 1 to ${most}`,
})

/** The settings of src/settings.ts that say how long the catalog keeps what has ended. */
export const RETENTION_SETTINGS: Readonly<
  Record<
    | 'metricsDays'
    | 'operationsDays'
    | 'auditDays'
    | 'historyMb'
    | 'historyMaxMb'
    | 'backupHours'
    | 'drillHours'
    | 'recoverHours'
    | 'branchRecoverHours'
    | 'archiveAfter'
    | 'archiveUnused',
    Setting<number>
  >
> = {
  metricsDays: days(
    'NEAP_METRICS_DAYS',
    90,
    30,
    'How long the figures of computes, for charts, are kept: 60 bytes for each minute in which a compute runs.',
  ),
  operationsDays: days(
    'NEAP_OPERATIONS_DAYS',
    3_650,
    30,
    'How long operations that have ended can be read; those of a deleted project: 7 days at most.',
  ),
  archiveAfter: {
    env: 'NEAP_ARCHIVE_AFTER',
    about: 'Seconds after its creation from which on an unused branch is archived: kept compressed (0: never).',
    fallback: () => 14 * 86_400,
    parse: whole(0, 315_360_000),
    expects: 'seconds from 0 to 315360000',
  },
  archiveUnused: {
    env: 'NEAP_ARCHIVE_UNUSED',
    about: 'Seconds for which a branch is not used before it is archived.',
    fallback: () => 86_400,
    parse: whole(1, 31_536_000),
    expects: 'seconds from 1 to 31536000',
  },
  historyMb: {
    env: 'NEAP_HISTORY_MB',
    about: 'So much WAL of a branch, in MiB, is kept before its data is copied again: what a restore replays at most.',
    fallback: () => 256,
    parse: whole(16, 1_048_576),
    expects: 'MiB from 16 to 1048576',
  },
  historyMaxMb: {
    env: 'NEAP_HISTORY_MAX_MB',
    about: 'The history of a branch in MiB at most, on its disk: with more it loses its oldest part before its time.',
    fallback: () => 10_240,
    parse: whole(64, 1_073_741_824),
    expects: 'MiB from 64 to 1073741824',
  },
  backupHours: {
    env: 'NEAP_BACKUP_HOURS',
    about: 'So old a backup of a branch that was written to is followed by another, where there is a repository.',
    fallback: () => 24,
    parse: whole(1, 720),
    expects: 'hours from 1 to 720',
  },
  drillHours: {
    env: 'NEAP_DRILL_HOURS',
    about: 'How often the newest backup of each protected branch is fetched, recovered and checked.',
    fallback: () => 24,
    parse: whole(1, 8_760),
    expects: 'hours from 1 to 8760',
  },
  recoverHours: {
    env: 'NEAP_RECOVER_HOURS',
    about: 'So long a deleted project keeps its data and can be recovered (0: deletion is final).',
    fallback: () => 0,
    parse: whole(0, 720),
    expects: 'hours from 0 to 720',
  },
  branchRecoverHours: {
    env: 'NEAP_BRANCH_RECOVER_HOURS',
    about:
      'So long a deleted branch keeps its data and can be recovered (0: deletion is final); ' +
      'less while the disk is almost full.',
    fallback: () => 168,
    parse: whole(0, 720),
    expects: 'hours from 0 to 720',
  },
  auditDays: days('NEAP_AUDIT_DAYS', 36_500, 365, 'How long the audit log is kept.'),
}
