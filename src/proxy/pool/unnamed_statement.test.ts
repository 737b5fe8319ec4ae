import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeMessage } from '../wire/messages.ts'
import { CLOSE, PARSE } from '../wire/message_types.ts'
import type { Expected } from './expected.ts'
import type { PoolServer } from './server_interface.ts'
import {
  changeUnnamed,
  createUnnamed,
  currentUnnamed,
  prepareUnnamed,
  restartUnnamed,
  settleUnnamed,
} from './unnamed_statement.ts'

/* Versions of an unnamed statement through errors and skipped batches. */

const one = encodeMessage(PARSE, Buffer.from('\0select 1\0\0\0'))
const two = encodeMessage(PARSE, Buffer.from('\0select 2\0\0\0'))

function fakeServer(): PoolServer & { readonly expected: Expected[] } {
  const expected: Expected[] = []
  return {
    unnamed: undefined,
    expected,
    expect: (entry: Expected) => void expected.push(entry),
  } as unknown as PoolServer & { readonly expected: Expected[] }
}

test('a Parse that the server skips leaves the statement before it', () => {
  const [unnamed, server] = [createUnnamed(), fakeServer()]
  changeUnnamed(unnamed, 'parse', server, one).onDone?.()
  const skipped = changeUnnamed(unnamed, 'parse', server, two)
  const alsoSkipped = changeUnnamed(unnamed, 'close', server)
  alsoSkipped.onDropped?.(false)
  skipped.onDropped?.(false)
  assert.equal(currentUnnamed(unnamed).parse, one)
  assert.equal(server.unnamed, undefined, 'the statement of the server is unknown')
})

test('a Parse at which the server fails leaves no statement', () => {
  const [unnamed, server] = [createUnnamed(), fakeServer()]
  changeUnnamed(unnamed, 'parse', server, one).onDone?.()
  changeUnnamed(unnamed, 'parse', server, two).onDropped?.(true)
  assert.deepEqual(currentUnnamed(unnamed), { exists: false, parse: undefined, was: undefined })
})

test('a version of a later batch outlives a skipped one', () => {
  const [unnamed, server] = [createUnnamed(), fakeServer()]
  const skipped = changeUnnamed(unnamed, 'parse', server, one)
  const later = changeUnnamed(unnamed, 'parse', server, two)
  skipped.onDropped?.(false)
  later.onDone?.()
  assert.equal(currentUnnamed(unnamed).parse, two)
  assert.equal(server.unnamed, currentUnnamed(unnamed))
})

test('messages that are sent again start from the last settled version', () => {
  const [unnamed, server] = [createUnnamed(), fakeServer()]
  changeUnnamed(unnamed, 'parse', server, one).onDone?.()
  settleUnnamed(unnamed)
  changeUnnamed(unnamed, 'parse', server, two)
  restartUnnamed(unnamed)
  assert.equal(currentUnnamed(unnamed).parse, one)
})

test('a server gets the statement only if it has another one', () => {
  const [unnamed, server, other] = [createUnnamed(), fakeServer(), fakeServer()]
  changeUnnamed(unnamed, 'parse', server, one).onDone?.()
  assert.equal(prepareUnnamed(unnamed, server), undefined)
  assert.equal(prepareUnnamed(unnamed, other), one)
  assert.equal(prepareUnnamed(unnamed, other), undefined)
  other.expected[0]?.onDropped?.(false)
  assert.equal(prepareUnnamed(unnamed, other), one, 'again, after the server has skipped it')
  changeUnnamed(unnamed, 'close', server).onDone?.()
  assert.equal(prepareUnnamed(unnamed, other)?.[0], CLOSE)
})
