import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { type Branch, call, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { given } from '../branches/lifetime.tsx'

const SCHEDULE = 'PUT /projects/:project_id/branches/:branch_id/backup_schedule'
type Rhythm = ApiResponse<'GET /projects/:project_id/branches/:branch_id/backup_schedule'>['schedule'][number]

const RHYTHMS = ['hourly', 'daily', 'weekly', 'monthly', 'yearly'] as const
const DAY_SECONDS = 86_400

/** When snapshots of a branch are taken by themselves, in one rhythm; several are set by the API. */
export function SnapshotSchedule({ branch: { project_id, id, name } }: { readonly branch: Branch }) {
  const queries = useQueryClient()
  const params = { project_id, branch_id: id }
  const queryKey = [...keysOf(project_id).state, 'snapshot schedule', id]
  const read = useQuery({
    queryKey,
    queryFn: async () =>
      (await call('GET /projects/:project_id/branches/:branch_id/backup_schedule', { params })).schedule,
  })
  const schedule = read.data ?? []
  const [item] = schedule
  return (
    <FormDialog
      action="snapshot-schedule"
      opener={item ? `Taken ${schedule.map(({ frequency }) => frequency).join(', ')}` : 'Schedule'}
      title={`When snapshots of ${name} are taken by themselves`}
      verb="Save"
      unavailable={schedule.length > 1 ? 'It has several rhythms: change them by the API.' : undefined}
      request={(fields) => prepare(SCHEDULE, { params, body: { schedule: scheduleOf(fields, item) } })}
      neap={(fields) => {
        const [set] = scheduleOf(fields, item)
        const hour = set?.hour === undefined ? undefined : String(set.hour)
        const days = set?.retention_seconds === undefined ? undefined : `${set.retention_seconds / DAY_SECONDS}d`
        return [
          'snapshots',
          'schedule',
          '--project',
          project_id,
          id,
          ...(set ? ['--every', set.frequency] : ['--none']),
          ...given('--hour', hour),
          ...given('--keep', days),
        ]
      }}
      done={() => queries.invalidateQueries({ queryKey })}
    >
      <Field label="Every">
        <select name="frequency" defaultValue={item?.frequency ?? ''}>
          <option value="">never</option>
          {RHYTHMS.map((rhythm) => (
            <option key={rhythm}>{rhythm}</option>
          ))}
        </select>
      </Field>
      <Field label="Hour" hint="In UTC; hourly ones need none.">
        <input name="hour" type="number" min={0} max={23} defaultValue={item?.hour ?? 0} />
      </Field>
      <Field label="Days to keep them" hint="Empty: for ever. The newest is kept beyond its time.">
        <input name="days" type="number" min={1} max={3650} defaultValue={item ? daysOf(item.retention_seconds) : 7} />
      </Field>
    </FormDialog>
  )
}

const daysOf = (seconds: number | undefined) => (seconds === undefined ? undefined : Math.ceil(seconds / DAY_SECONDS))

/** The rhythm of a form; the day and month of the one that stands are kept where it goes on. */
function scheduleOf(fields: FormData, standing: Rhythm | undefined) {
  const frequency = textOf(fields, 'frequency') as (typeof RHYTHMS)[number] | undefined
  if (frequency === undefined) return []
  const days = textOf(fields, 'days')
  const kept = standing?.frequency === frequency ? { day: standing.day, month: standing.month } : undefined
  return [
    {
      ...kept,
      frequency,
      hour: frequency === 'hourly' ? undefined : Number(textOf(fields, 'hour') ?? 0),
      retention_seconds: days === undefined ? undefined : Number(days) * DAY_SECONDS,
    },
  ]
}
