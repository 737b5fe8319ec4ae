import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FormError, parseForm } from './form.ts'

test('brackets in names form groups and lists up to the maximum depth', () => {
  assert.deepEqual(parseForm('a[b]=1&a[c][d]=x+y%26&e[]=1&e[]=2&f[1][g]=b&f[0][g]=a&h=1&h=2&i='), {
    a: { b: '1', c: { d: 'x y&' } },
    e: ['1', '2'],
    f: [{ g: 'a' }, { g: 'b' }],
    h: ['1', '2'],
    i: '',
  })
  assert.deepEqual(parseForm('a[0]=x&a[b]=y'), { a: { 0: 'x', b: 'y' } })
  assert.deepEqual(parseForm('a[b=1&]=2&[x]=3'), { 'a[b': '1', ']': '2', '[x]': '3' })
})

test('no field name changes a prototype', () => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const parsed = parseForm(`${name}[polluted]=1&a[${name}][polluted]=1`)
    assert.ok(Object.hasOwn(parsed, name))
    assert.equal(({} as Record<string, unknown>)['polluted'], undefined)
    assert.equal((Object as unknown as Record<string, unknown>)['polluted'], undefined)
  }
})

test('a form that is too large or contradicts itself is refused', () => {
  for (const form of [
    Array.from({ length: 1_001 }, (_, index) => `k${index}=`).join('&'),
    `a${'[b]'.repeat(8)}=1`,
    'a[101]=1',
    Array.from({ length: 102 }, () => 'a[]=1').join('&'),
    'a=1&a[b]=2',
    'a[b]=2&a=1',
  ])
    assert.throws(() => parseForm(form), FormError, form.slice(0, 40))
})
