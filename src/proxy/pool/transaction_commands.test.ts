import assert from 'node:assert/strict'
import { test } from 'node:test'
import { transactionCommands } from './transaction_commands.ts'

test('each statement is classified by its effect on the transaction', () => {
  assert.deepEqual(transactionCommands("begin; select ';commit'; /* ; */ END -- ;\n; rollback to a; abort and chain"), [
    'begin',
    'other',
    'commit',
    'rollback to',
    'rollback and chain',
  ])
  assert.deepEqual(transactionCommands(' ; ;'), [])
})

test('a text that is longer than is read ends in something unknown', () => {
  const long = `commit; ${'select 1; '.repeat(10_000)} rollback`
  assert.deepEqual([...new Set(transactionCommands(long))], ['commit', 'other'])
  assert.equal(transactionCommands(`rollback ${' '.repeat(70_000)}`).at(-1), 'other')
})
