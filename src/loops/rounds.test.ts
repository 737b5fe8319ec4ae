import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createRounds } from './rounds.ts'

const items = Array.from({ length: 40 }, (_, index) => ({ id: String(index) }))

test('work reaches each item, also where a round ends before all were reached', async () => {
  const worked = new Map<string, number>()
  let [inside, most] = [0, 0]
  const release: (() => void)[] = []
  const offer = createRounds<{ id: string }>(4, async ({ id }) => {
    most = Math.max(most, ++inside)
    await new Promise<void>((resolve) => {
      release.push(resolve)
    })
    worked.set(id, (worked.get(id) ?? 0) + 1)
    inside--
  })
  for (let round = 0; round < 20; round++) {
    offer(items)
    // Four of forty end before the next round.
    for (const end of release.splice(0)) end()
    await turn()
  }
  equal(most, 4)
  equal(worked.size, items.length)
  deepEqual([...new Set(worked.values())], [2], 'each as often as the others')
})
