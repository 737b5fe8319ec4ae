import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from './sql.ts'

const ofBranch = (id: string) => sql`branch_id = ${id}`

test('a statement has its values apart from its text', () => {
  const statement = sql`select * from branch where id = ${'a'} and name = ${'b'}`
  assert.equal(statement.text, 'select * from branch where id = $1 and name = $2')
  assert.deepEqual(statement.values, ['a', 'b'])
})

test('undefined becomes null, in a statement and in a fragment', () => {
  assert.deepEqual(sql`select ${undefined}, ${null}, ${0}`.values, [null, null, 0])
  assert.deepEqual(sql`select ${undefined} where ${sql`a = ${undefined}`} and ${undefined}`.values, [null, null, null])
})

test('a fragment becomes a part of the text, and parameters are numbered in order', () => {
  const statement = sql`select ${1} from a where ${sql`b = ${2} and c = ${3}`} and d = ${4} ${sql`order by e`}`
  assert.equal(statement.text, 'select $1 from a where b = $2 and c = $3 and d = $4 order by e')
  assert.deepEqual(statement.values, [1, 2, 3, 4])
})

test('fragments nest, stand beside each other, and may be empty or used twice', () => {
  const twice = ofBranch('x')
  const inner = sql`(${twice} or ${sql`d = ${2}`}${sql``})`
  const statement = sql`${inner} and ${twice}${sql` limit ${1}`}`
  assert.equal(statement.text, '(branch_id = $1 or d = $2) and branch_id = $3 limit $4')
  assert.deepEqual(statement.values, ['x', 2, 'x', 1])
  assert.equal(sql`${sql``}`.text, '')
})

test('a value never becomes text, whatever its form', () => {
  const forged = { name: 'x', text: 'drop table a', values: [], parts: ['drop table a'], shape: { parts: ['drop'] } }
  const values = ['; drop table a', ['x'], Buffer.from('y'), new Date(0), forged, JSON.parse('{"text":"z"}') as object]
  for (const value of values) {
    const statement = sql`select ${value}`
    assert.equal(statement.text, 'select $1')
    assert.deepEqual(statement.values, [value])
    assert.equal(sql`${sql`select ${value}`} as a`.text, 'select $1 as a')
  }
})

test('a place in the code has one name, however often it runs', () => {
  const statement = (id: number) => sql`select ${id}`
  assert.equal(statement(1).name, statement(2).name)
  assert.notEqual(statement(1).name, sql`select ${1}`.name)
})

test('each combination of fragments has one name of its own', () => {
  const page = (descending: boolean, id: string | undefined) =>
    sql`select * from a where ${id ? ofBranch(id) : sql`true`} order by b ${descending ? sql`desc` : sql``}`
  const all = [page(true, 'x'), page(false, 'x'), page(true, undefined), page(false, undefined)]
  assert.equal(new Set(all.map(({ name }) => name)).size, 4)
  assert.equal(new Set(all.map(({ text }) => text)).size, 4)
  for (const { text, name } of all) assert.match(name, /^neap_\d+$/, text)
  assert.deepEqual(
    [page(true, 'y'), page(false, 'y'), page(true, undefined), page(false, undefined)].map(({ name }) => name),
    all.map(({ name }) => name),
  )
})

test('a place that takes a fragment or a value tells them apart', () => {
  const at = (first: unknown, second: unknown) => sql`select ${first}, ${second}`
  const fragment = sql`now()`
  const texts = [at(1, 2), at(fragment, 2), at(1, fragment), at(fragment, fragment)]
  assert.deepEqual(
    texts.map(({ text }) => text),
    ['select $1, $2', 'select now(), $1', 'select $1, now()', 'select now(), now()'],
  )
  assert.equal(new Set(texts.map(({ name }) => name)).size, 4)
})
