import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canonicalLoginCode, newLoginCode } from './login_code.ts'

test('a code is accepted as people type it', () => {
  for (const typed of ['7QDK-M2XN', '7qdkm2xn', ' 7QDK M2XN ', '7qdk-m2xn'])
    assert.equal(canonicalLoginCode(typed), '7QDKM2XN')
  assert.equal(canonicalLoginCode('OIL0-1111'), '01101111')
})

test('other texts are no codes', () => {
  for (const typed of ['', '7QDK', '7QDK-M2XNN', 'UUUU-UUUU', '7QDK-M2X!', "' or 1=1"])
    assert.equal(canonicalLoginCode(typed), undefined)
})

test('codes differ, and each is in its canonical form but for the hyphen', () => {
  const codes = Array.from({ length: 1_000 }, newLoginCode)
  assert.equal(new Set(codes).size, 1_000)
  for (const code of codes) assert.equal(canonicalLoginCode(code), code.replace('-', ''))
})
