import assert from 'node:assert/strict'
import { test } from 'node:test'
import { undoAll } from './undo.ts'

test('every action is undone in turn even if some fail, and the first failure is thrown', async () => {
  const done: string[] = []
  const step =
    (name: string, fails = false) =>
    async () => {
      done.push(name)
      if (fails) throw new Error(`${name} failed`)
    }
  const steps = [step('lock'), step('catalog', true), step('pool'), step('parts', true)]
  await assert.rejects(undoAll(steps), /^Error: parts failed$/)
  assert.deepEqual(done, ['parts', 'pool', 'catalog', 'lock'])
})
