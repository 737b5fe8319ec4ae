import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newBranchId, newEndpointId, newOperationId, newProjectId, newRequestId, newUuid } from './ids.ts'

const many = (make: () => string) => Array.from({ length: 5000 }, make)

test('resource ids have their form, fit a host name and do not repeat', () => {
  const forms: [() => string, RegExp][] = [
    [newProjectId, /^[a-z]+-[a-z]+-[0-9]{8}$/],
    [newBranchId, /^br-[a-z]+-[a-z]+-[a-z0-9]{8}$/],
    [newEndpointId, /^ep-[a-z]+-[a-z]+-[a-z0-9]{8}$/],
  ]
  for (const [make, form] of forms) {
    const ids = many(make)
    for (const id of ids) {
      assert.match(id, form)
      assert.match(id, /^[a-z0-9-]{1,60}$/)
      assert.ok(!id.includes('-pooler'))
    }
    assert.equal(new Set(ids).size, ids.length)
  }
})

test('every word of the list occurs in ids', () => {
  const seen = new Set(many(newBranchId).flatMap((id) => id.split('-').slice(1, 3)))
  assert.equal(seen.size, 128)
})

test('UUIDs are version 7, carry the time, and rise even when the clock steps back', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const first = newUuid()
  assert.match(first, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.ok(Math.abs(Number.parseInt(first.replaceAll('-', '').slice(0, 12), 16) - Date.now()) < 2)
  const ids = [first, ...many(newUuid)]
  t.mock.timers.setTime(Date.now() - 60_000)
  ids.push(...many(newOperationId))
  t.mock.timers.setTime(Date.now() + 120_000)
  ids.push(...many(newRequestId))
  assert.deepEqual(ids, ids.toSorted())
  assert.equal(new Set(ids).size, ids.length)
})
