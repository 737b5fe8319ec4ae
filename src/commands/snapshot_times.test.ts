import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { ScheduleItem } from '../catalog/snapshot_schedule.ts'
import { nextOf, nextTime, retentionOf } from './snapshot_times.ts'

const next = (item: ScheduleItem, after: string) => new Date(nextTime(item, Date.parse(after))).toISOString()

test('each frequency is due at its next time in UTC', () => {
  const cases: [ScheduleItem, string, string][] = [
    [{ frequency: 'hourly', hour: 5 }, '2026-11-26T10:00:00Z', '2026-11-26T11:00:00.000Z'],
    [{ frequency: 'daily' }, '2026-11-26T10:20:00Z', '2026-11-27T00:00:00.000Z'],
    [{ frequency: 'daily', hour: 11 }, '2026-11-26T10:20:00Z', '2026-11-26T11:00:00.000Z'],
    // A Thursday.
    [{ frequency: 'weekly', day: 4, hour: 10 }, '2026-11-26T10:00:00Z', '2026-12-03T10:00:00.000Z'],
    [{ frequency: 'weekly', day: 7, hour: 3 }, '2026-11-26T10:00:00Z', '2026-11-29T03:00:00.000Z'],
    [{ frequency: 'weekly', day: 1 }, '2026-11-29T23:59:59Z', '2026-11-30T00:00:00.000Z'],
    [{ frequency: 'monthly', day: 31, hour: 6 }, '2027-02-01T00:00:00Z', '2027-02-28T06:00:00.000Z'],
    [{ frequency: 'monthly' }, '2026-12-15T00:00:00Z', '2027-01-01T00:00:00.000Z'],
    [{ frequency: 'yearly', month: 2, day: 29 }, '2027-01-01T00:00:00Z', '2027-02-28T00:00:00.000Z'],
    [{ frequency: 'yearly', month: 3, day: 1 }, '2027-03-01T00:00:00Z', '2028-03-01T00:00:00.000Z'],
  ]
  for (const [item, after, expected] of cases) equal(next(item, after), expected, JSON.stringify([item, after]))
})

test('a snapshot is kept as long as the longest of the frequencies that were due', () => {
  const items: ScheduleItem[] = [
    { frequency: 'hourly', retention_seconds: 7_200 },
    { frequency: 'daily', retention_seconds: 86_400 },
  ]
  const midnight = Date.parse('2026-11-27T00:00:00Z')
  equal(nextOf(items, midnight - 1_800_000), midnight)
  equal(retentionOf(items, midnight), 86_400)
  equal(retentionOf(items, midnight + 3_600_000), 7_200)
  equal(retentionOf([...items, { frequency: 'weekly', day: 5 }], midnight), undefined)
  deepEqual(
    [1, 2].map((hour) => retentionOf(items, midnight + hour * 3_600_000)),
    [7_200, 7_200],
  )
})
