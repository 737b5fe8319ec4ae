import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryLimit } from './memory_limit.ts'

test('an endpoint holds its share, and where all are full the oldest of the largest makes room', () => {
  const limit = createMemoryLimit(100, 150)
  const dropped: string[] = []
  const reserve = (endpointId: string, name: string) => limit.reserve(endpointId, () => dropped.push(name))
  const first = reserve('ep-a', 'a1')
  first.add(60)
  reserve('ep-a', 'a2').add(30)
  assert.throws(() => reserve('ep-a', 'a3').add(11), { status: 503 })
  const other = reserve('ep-b', 'b1')
  other.add(50)
  assert.deepEqual(dropped, [])
  other.add(20)
  assert.deepEqual(dropped, ['a1'])
  // A dropped request no longer counts, however often it is released.
  first.add(1_000)
  first.release()
  reserve('ep-a', 'a4').add(50)
  assert.deepEqual(dropped, ['a1'])
  other.release()
  reserve('ep-c', 'c1').add(70)
  assert.deepEqual(dropped, ['a1'])
})

test('an answer is kept, and the oldest requests of its endpoint make room', () => {
  const limit = createMemoryLimit(100, 150)
  const dropped: string[] = []
  const reserve = (endpointId: string, name: string) => limit.reserve(endpointId, () => dropped.push(name))
  const [first, second, third] = ['a1', 'a2', 'a3'].map((name) => reserve('ep-a', name))
  reserve('ep-b', 'b1').add(40)
  first?.keep(60)
  second?.keep(30)
  assert.deepEqual(dropped, [])
  // The third has not been answered yet.
  third?.add(5)
  first?.keep(20)
  assert.deepEqual(dropped, ['a3', 'a2'])
  reserve('ep-a', 'a4').keep(110)
  assert.deepEqual(dropped, ['a3', 'a2', 'a1'])
})
