import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { createDerivations } from './derivations.ts'

test('an endpoint derives keys in a burst, then by its share of a core, while others are served', async () => {
  let clock = 0
  const derivations = createDerivations(() => clock)
  const client = new PassThrough()
  const salt = Buffer.alloc(16)
  let done = 0
  const flood = Array.from({ length: 9 }, () =>
    derivations.derive(client, 'ep-hostile', 'any', salt, 100_000).then(() => {
      done++
    }),
  )
  await Promise.all(flood.slice(0, 5))
  for (let turn = 0; turn < 20; turn++) await derivations.derive(client, 'ep-other', 'any', salt, 4_096)
  assert.equal(done, 5)
  // Half a second refills the budget for one more derivation.
  clock += 500
  await flood[5]
  await derivations.derive(client, 'ep-other', 'any', salt, 4_096)
  assert.equal(done, 6)
  clock += 60_000
  await Promise.all(flood)
})
