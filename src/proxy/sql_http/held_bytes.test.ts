import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHeldBytes } from './held_bytes.ts'

test('an endpoint holds its share, and where all are full the oldest of the largest makes room', () => {
  const held = createHeldBytes(100, 150)
  const dropped: string[] = []
  const hold = (endpointId: string, name: string) => held.hold(endpointId, () => dropped.push(name))
  const first = hold('ep-a', 'a1')
  first.add(60)
  hold('ep-a', 'a2').add(30)
  assert.throws(() => hold('ep-a', 'a3').add(11), { status: 503 })
  const other = hold('ep-b', 'b1')
  other.add(50)
  assert.deepEqual(dropped, [])
  other.add(20)
  assert.deepEqual(dropped, ['a1'])
  // A dropped request no longer counts, however often it is released.
  first.add(1_000)
  first.release()
  hold('ep-a', 'a4').add(50)
  assert.deepEqual(dropped, ['a1'])
  other.release()
  hold('ep-c', 'c1').add(70)
  assert.deepEqual(dropped, ['a1'])
})
