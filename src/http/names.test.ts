import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../config.ts'
import { watchNames } from './names.ts'

const config = loadConfig({ dataDir: '/nonexistent' }, {})

test('a pending DNS lookup delays no answer, and its result counts once it arrives', async () => {
  const answer = Promise.withResolvers<unknown>()
  const resolve = await watchNames(config, () => answer.promise)
  assert.equal(resolve(), false)
  answer.resolve({ address: '127.0.0.1' })
  await new Promise(setImmediate)
  assert.equal(resolve(), true)
})

test('names are looked up again after a minute, while requests use the last result', async (t) => {
  let now = 0
  t.mock.method(performance, 'now', () => now)
  const answers: PromiseWithResolvers<unknown>[] = []
  const ask = (name: string) => {
    assert.match(name, /\.local\.localhost$/)
    answers.push(Promise.withResolvers())
    return (answers.at(-1) as PromiseWithResolvers<unknown>).promise
  }
  const watching = watchNames(config, ask)
  answers[0]?.reject(new Error('ENOTFOUND'))
  const resolve = await watching
  assert.deepEqual([resolve(), answers.length], [false, 1])
  now = 61_000
  assert.deepEqual([resolve(), resolve(), answers.length], [false, false, 2])
  answers[1]?.resolve({})
  await new Promise(setImmediate)
  assert.deepEqual([resolve(), answers.length], [true, 2])
})
