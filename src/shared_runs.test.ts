import { deepEqual, equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { createSharedRuns } from './shared_runs.ts'

test('callers during a run share the next one, which begins after they came', async () => {
  const share = createSharedRuns<number>()
  const ends: PromiseWithResolvers<number>[] = []
  const run = () => {
    const end = Promise.withResolvers<number>()
    ends.push(end)
    return end.promise
  }
  const first = share('key', run)
  const others = [share('key', run), share('key', run)]
  const another = share('another key', run)
  equal(ends.length, 2)
  ends[0]?.resolve(1)
  ends[1]?.resolve(2)
  deepEqual([await first, await another], [1, 2])
  equal(ends.length, 3)
  ends[2]?.resolve(3)
  deepEqual(await Promise.all(others), [3, 3])
  const last = share('key', run)
  equal(ends.length, 4)
  ends[3]?.resolve(4)
  equal(await last, 4)
})

test('a run that fails fails for those that share it, and the next one begins', async () => {
  const share = createSharedRuns<string>()
  const failing = share('key', () => Promise.reject(new Error('away')))
  const next = share('key', () => Promise.resolve('back'))
  await rejects(failing, /away/)
  equal(await next, 'back')
})
