/* When a schedule of snapshots is due, in UTC. */
import type { ScheduleItem } from '../catalog/snapshot_schedule.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The first time after a moment at which a rhythm is due; both in milliseconds since 1970. */
export function nextTime(item: ScheduleItem, after: number): number {
  const { frequency, hour = 0, day = 1, month = 1 } = item
  const then = new Date(after)
  const [year, thisMonth] = [then.getUTCFullYear(), then.getUTCMonth()]
  if (frequency === 'hourly') return (Math.floor(after / HOUR_MS) + 1) * HOUR_MS
  if (frequency === 'daily' || frequency === 'weekly') {
    const today = Math.floor(after / DAY_MS) * DAY_MS + hour * HOUR_MS
    const days = frequency === 'daily' ? 1 : 7
    // Sunday is 0 for a Date, and 7 here.
    const ahead = frequency === 'daily' ? 0 : (day - then.getUTCDay() + 7) % 7
    const first = today + ahead * DAY_MS
    return first > after ? first : first + days * DAY_MS
  }
  const step = frequency === 'monthly' ? 1 : 12
  const first = frequency === 'monthly' ? thisMonth : month - 1
  const soonest = timeInMonth(year, first, day, hour)
  return soonest > after ? soonest : timeInMonth(year, first + step, day, hour)
}

/** A day and hour of a month, whose last day stands for days that it lacks. */
function timeInMonth(year: number, month: number, day: number, hour: number): number {
  const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  return Date.UTC(year, month, Math.min(day, last), hour)
}

/** The first time after a moment at which any of the rhythms is due. */
export const nextOf = (items: readonly ScheduleItem[], after: number): number =>
  Math.min(...items.map((item) => nextTime(item, after)))

/**
 * How long the snapshot of a due schedule is kept, in seconds: as its longest-kept rhythm that was due says; undefined
 * for ever.
 * @param dueAt the time at which it was due, in milliseconds since 1970
 */
export function retentionOf(items: readonly ScheduleItem[], dueAt: number): number | undefined {
  const due = items.filter((item) => nextTime(item, dueAt - 1) === dueAt)
  if (due.some(({ retention_seconds }) => retention_seconds === undefined)) return undefined
  return Math.max(...due.map(({ retention_seconds = 0 }) => retention_seconds))
}
