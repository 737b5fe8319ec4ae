import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStatementNames } from './statement_names.ts'
import { createStatements, type PooledStatement, type Statements } from './statements.ts'

/* Names of prepared statements, whose changes are undone when their messages are sent again. */

const definition = (text: string): Buffer => Buffer.from(`${text}\0\0\0`)

/** Whether any client still uses a statement: a released one gets a new name when it is interned again. */
function isUsed(statements: Statements, statement: PooledStatement, text: string): boolean {
  const again = statements.intern(definition(text))
  statements.release(again)
  return again === statement
}

test('changes are undone in reverse order', () => {
  const statements = createStatements()
  const names = createStatementNames(statements)
  const first = statements.intern(definition('select 1'))
  names.set('a', first)
  names.settle()
  const second = statements.intern(definition('select 2'))
  names.delete('a')
  names.set('a', second)
  names.set('b', statements.intern(definition('select 3')))
  names.restart()
  assert.equal(names.get('a'), first)
  assert.equal(names.has('b'), false)
  assert.ok(isUsed(statements, first, 'select 1'))
  assert.ok(!isUsed(statements, second, 'select 2'))
})

test('a statement is released once no name can need it again', () => {
  const statements = createStatements()
  const names = createStatementNames(statements)
  const first = statements.intern(definition('select 1'))
  names.set('a', first)
  names.settle()
  names.delete('a')
  assert.ok(isUsed(statements, first, 'select 1'), 'the change may be undone')
  names.settle()
  assert.ok(!isUsed(statements, first, 'select 1'))
  const last = statements.intern(definition('select 2'))
  names.set('b', last)
  names.close()
  assert.ok(!isUsed(statements, last, 'select 2'))
})
