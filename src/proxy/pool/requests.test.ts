import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeMessage } from '../wire/messages.ts'
import { COPY_DATA, COPY_DONE, PARSE, QUERY, SYNC, TERMINATE } from '../wire/message_types.ts'
import { createRequests, type Requests } from './requests.ts'
import type { PoolServer } from './server_interface.ts'
import type { Translator } from './translate.ts'

/* The reading of a client's messages, apart from sockets and from the statements of a pool. */

const text = (value: string): Buffer => Buffer.from(`${value}\0`)
const REPLACED = encodeMessage(PARSE, text('neap_1'), text('select 1'))

/** Replaces each Parse once it is whole, drops each Sync, and lets all others pass. */
const translator = {
  translate(type, { bytes, end }, _server, replace) {
    if (type === PARSE && end > bytes.length) return false
    if (type === PARSE) replace(end, REPLACED)
    if (type === SYNC) replace(end)
    return true
  },
} as Translator

interface Forwarded {
  readonly requests: Requests
  readonly sent: Buffer[]
  readonly isTerminated: boolean
}

/** Forwards chunks as a socket delivers them: each in a buffer that is overwritten later. */
function forward(...chunks: readonly Buffer[]): Forwarded {
  const requests = createRequests(translator)
  const sent: Buffer[] = []
  const server = { send: (bytes: Buffer) => void sent.push(Buffer.from(bytes)) } as PoolServer
  let isTerminated = false
  for (const chunk of chunks) {
    const borrowed = Buffer.from(chunk)
    isTerminated = requests.forward(server, borrowed) || isTerminated
    borrowed.fill(0xff)
  }
  return { requests, sent, isTerminated }
}

const query = encodeMessage(QUERY, text('select 1'))
const parse = encodeMessage(PARSE, text('mine'), text('select 1'))
const sync = encodeMessage(SYNC)

test('a stream cut anywhere reaches the server with the same replacements', () => {
  const stream = Buffer.concat([query, parse, sync, query, parse, sync])
  const expected = Buffer.concat([query, REPLACED, query, REPLACED])
  for (let first = 0; first <= stream.length; first++)
    for (let second = first; second <= stream.length; second++) {
      const chunks = [stream.subarray(0, first), stream.subarray(first, second), stream.subarray(second)]
      assert.deepEqual(Buffer.concat(forward(...chunks).sent), expected, `cut at ${first} and ${second}`)
    }
})

test('one chunk is one write, with replacements and without', () => {
  assert.equal(forward(Buffer.concat([query, query])).sent.length, 1)
  assert.equal(forward(Buffer.concat([parse, sync, parse, sync])).sent.length, 1)
  assert.equal(forward(sync).sent.length, 0)
})

test('the body of a message passes in the chunks in which it comes, and only a whole head is examined', () => {
  const { requests, sent } = forward(query.subarray(0, 3), query.subarray(3, 8))
  assert.deepEqual(sent, [query.subarray(0, 8)])
  assert.ok(requests.isMidMessage())
  const begun = forward(parse.subarray(0, 8))
  assert.ok(!begun.requests.isMidMessage())
  assert.deepEqual(begun.requests.begun(), parse.subarray(0, 8))
  assert.deepEqual(begun.sent, [])
})

test('Terminate is not forwarded, nor are bytes behind it', () => {
  const { sent, isTerminated } = forward(Buffer.concat([query, encodeMessage(TERMINATE), query]))
  assert.ok(isTerminated)
  assert.deepEqual(sent, [query])
})

test('a length that no message has is an error', () => {
  assert.throws(() => forward(Buffer.from([QUERY, 0, 0, 0, 3])), { message: /invalid message length/ })
  assert.throws(() => forward(Buffer.from([PARSE, 0x10, 0, 0, 0])), { message: /more than 16 MB/ })
})

test('without a server connection, messages are split and data of a COPY is dropped', () => {
  const { requests } = forward(parse.subarray(0, 4))
  const data = encodeMessage(COPY_DATA, text('1'))
  const rest = Buffer.concat([parse.subarray(4), data, encodeMessage(COPY_DONE), sync, query.subarray(0, 6)])
  assert.deepEqual(requests.split(rest), { messages: [parse, sync], tail: query.subarray(0, 6) })
  assert.deepEqual(requests.split(data.subarray(0, 6)), { messages: [], tail: Buffer.alloc(0) })
  assert.ok(requests.isMidMessage())
  assert.deepEqual(requests.split(Buffer.concat([data.subarray(6), sync])).messages, [sync])
})
