import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { createWaitingPlaces } from './passwordless_places.ts'

/** Takes places until they are refused. Returns how many there were, and functions that leave them. */
function fill(places: ReturnType<typeof createWaitingPlaces>, nameOf: (index: number) => [string, string, string]) {
  const left: (() => void)[] = []
  for (let index = 0; index < 1_000; index++) {
    const [accountId, endpointId, network] = nameOf(index)
    try {
      left.push(places.take(new PassThrough(), { accountId, endpointId, network }))
    } catch {
      break
    }
  }
  return left
}

test('a network, an endpoint, an account and all together have places of their own', () => {
  const places = createWaitingPlaces()
  assert.equal(fill(places, (index) => [`a${index}`, `e${index}`, 'one']).length, 5)
  assert.equal(fill(places, (index) => [`b${index}`, 'one', `n${index}`]).length, 10)
  assert.equal(fill(places, (index) => ['one', `f${index}`, `m${index}`]).length, 20)
  assert.equal(fill(places, (index) => [`c${index}`, `g${index}`, `k${index}`]).length, 200 - 5 - 10 - 20)
})

test('a place is free again once, when its login ends or its client leaves', () => {
  const places = createWaitingPlaces()
  const taken = fill(places, () => ['a', 'e', 'n'])
  assert.equal(taken.length, 5)
  taken[0]?.()
  taken[0]?.()
  const client = new PassThrough()
  const leave = places.take(client, { accountId: 'a', endpointId: 'e', network: 'n' })
  assert.throws(() => places.take(client, { accountId: 'a', endpointId: 'e', network: 'n' }))
  client.emit('close')
  leave()
  assert.equal(fill(places, () => ['a', 'e', 'n']).length, 1)
})
