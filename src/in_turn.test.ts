import { deepEqual, equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { inTurn } from './in_turn.ts'

const LONG = 60_000

test('short work runs one after the other, in order', async () => {
  const done: number[] = []
  let [running, most] = [0, 0]
  const work = async (item: number): Promise<void> => {
    most = Math.max(most, ++running)
    await turn()
    running--
    done.push(item)
  }
  await inTurn([1, 2, 3, 4], work, LONG)
  deepEqual(done, [1, 2, 3, 4])
  equal(most, 1)
})

test('work that hangs keeps no other waiting, and is waited for at the end', async () => {
  const hung = Promise.withResolvers<void>()
  const done: number[] = []
  const work = async (item: number): Promise<void> => {
    if (item === 1) await hung.promise
    done.push(item)
    if (item === 3) hung.resolve()
  }
  await inTurn([1, 2, 3], work, 1)
  deepEqual(done, [2, 3, 1])
})

test('an error comes once all were begun, and the rest is left out when it is not to go on', async () => {
  const begun: number[] = []
  const fails = async (item: number): Promise<void> => {
    begun.push(item)
    if (item === 1) throw new Error('it failed')
  }
  await rejects(inTurn([1, 2], fails, LONG), /it failed/)
  deepEqual(begun, [1, 2])
  await inTurn([3, 4, 5], fails, LONG, () => begun.length < 4)
  deepEqual(begun, [1, 2, 3, 4])
})
