import { whole } from './setting_kinds.ts'

interface RetentionSetting {
  readonly env: string
  readonly flag?: string
  readonly about: string
  readonly fallback: () => number
  readonly parse: (text: string) => number | undefined
  readonly expects: string
}

/** How many days one kind of rows is kept. */
const days = (env: string, most: number, fallback: number, about: string): RetentionSetting => ({
  env,
  about,
  fallback: () => fallback,
  parse: whole(1, most),
  expects: `days from 1 to ${most}`,
})

/** The settings of src/settings.ts that say how long the catalog keeps what has ended. */
export const RETENTION_SETTINGS = {
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
  auditDays: days('NEAP_AUDIT_DAYS', 36_500, 365, 'How long the audit log is kept.'),
}
