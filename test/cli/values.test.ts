import assert from 'node:assert/strict'
import { test } from 'node:test'
import { card, type Columns, list, table } from '../../src/cli/table.ts'
import { assignment, computeSize, expiry, suspendTimeout } from '../../src/cli/values.ts'

test('values are parsed in their common notations', () => {
  assert.deepEqual(computeSize('0.25'), { autoscaling_limit_min_cu: 0.25, autoscaling_limit_max_cu: 0.25 })
  assert.deepEqual(computeSize('1-4'), { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 4 })
  for (const size of ['', '-1', '1-', '1-2-3', '1e3', 'x']) assert.throws(() => computeSize(size), /It takes a size/)

  assert.deepEqual(['never', 'default', '90', '-1'].map(suspendTimeout), [-1, 0, 90, -1])
  assert.throws(() => suspendTimeout('1.5'), /It takes seconds/)

  const both = assignment('search_path=a = b', assignment('work_mem=8MB'))
  assert.deepEqual(both, { work_mem: '8MB', search_path: 'a = b' })
  assert.deepEqual(assignment('work_mem='), { work_mem: '' })
  assert.throws(() => assignment('=8MB'), /It takes name=value/)

  assert.equal(expiry('2027-01-31T12:00:00+02:00'), '2027-01-31T10:00:00.000Z')
  const [earliest, day, latest] = [Date.now(), Date.parse(expiry('1d')), Date.now()]
  assert.ok(day >= earliest + 86_400_000 && day <= latest + 86_400_000)
  for (const when of ['', '7', '7y', 'tomorrow', '2027-13-01']) assert.throws(() => expiry(when), /It takes a time/)
})

interface Item {
  readonly id: string
  readonly name?: string
  readonly error?: string
}

test('tables are aligned, omit empty columns, and escape control characters', () => {
  const columns: Columns<Item> = { ID: ({ id }) => id, NAME: ({ name }) => name, ERROR: ({ error }) => error }
  const items = [{ id: 'a', name: 'two words' }, { id: 'longer' }, { id: 'c', name: 'red\x1b[31m\n' }]
  assert.equal(
    list(items, columns, 'none'),
    ['ID      NAME', 'a       two words', 'longer  -', 'c       red\\x1b[31m\\x0a'].join('\n'),
  )
  assert.equal(list([], columns, 'none'), 'none')
  assert.equal(card({ id: 'a', error: 'lost' }, columns), 'ID     a\nERROR  lost')
  assert.equal(table(['A'], []), 'A')
})
