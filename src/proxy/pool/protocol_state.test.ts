import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAILED, IDLE, IN_BLOCK } from '../wire/message_types.ts'
import type { Expected, Kind } from './expected.ts'
import {
  beginCopyIn,
  createProtocolState,
  failBatch,
  isSettled,
  type ProtocolState,
  recordReady,
  recordSent,
} from './protocol_state.ts'

/* The protocol's states through errors, pipelines and COPY, without a server. */

const refused = { code: '22012', text: 'division by zero' }
const INSTEAD = Buffer.from('1')

const send = (protocol: ProtocolState, ...kinds: Kind[]): string[] =>
  kinds.map((kind) => recordSent(protocol, { kind }))

const pending = ({ unanswered }: ProtocolState): Kind[] => unanswered.all().map(({ kind }) => kind)

test('a batch is open until its Sync, and settled with ReadyForQuery outside of a transaction', () => {
  const protocol = createProtocolState()
  assert.ok(isSettled(protocol))
  send(protocol, 'parse', 'bind', 'execute')
  assert.deepEqual([protocol.batch, isSettled(protocol)], ['open', false])
  send(protocol, 'sync')
  for (let n = 0; n < 3; n++) protocol.unanswered.shift()
  recordReady(protocol, IN_BLOCK)
  assert.deepEqual([protocol.batch, isSettled(protocol)], ['synced', false])
  send(protocol, 'query')
  recordReady(protocol, IDLE)
  assert.ok(isSettled(protocol))
})

test('after an error, messages up to a Sync that was sent are dropped', () => {
  const protocol = createProtocolState()
  send(protocol, 'parse', 'bind', 'execute', 'sync', 'query')
  assert.deepEqual(
    failBatch(protocol, refused).map(({ kind }) => kind),
    ['parse', 'bind', 'execute'],
  )
  assert.deepEqual([protocol.batch, pending(protocol)], ['synced', ['sync', 'query']])
})

test('after an error without a Sync, messages are skipped until there is one', () => {
  const protocol = createProtocolState()
  send(protocol, 'bind')
  assert.equal(failBatch(protocol, refused).length, 1)
  assert.deepEqual(send(protocol, 'execute', 'query', 'copy_end'), ['skipped', 'skipped', 'skipped'])
  assert.deepEqual([protocol.batch, isSettled(protocol)], ['failed', false])
  assert.deepEqual(send(protocol, 'sync', 'bind'), ['sent', 'sent'])
  assert.deepEqual([protocol.batch, pending(protocol)], ['open', ['sync', 'bind']])
})

test('the error of a query drops nothing, since ReadyForQuery follows', () => {
  const protocol = createProtocolState()
  send(protocol, 'query', 'bind')
  assert.deepEqual(failBatch(protocol, refused), [])
  assert.deepEqual(pending(protocol), ['query', 'bind'])
})

test('a Sync before the data of a COPY is ignored, and an error of the COPY needs another one', () => {
  const protocol = createProtocolState()
  send(protocol, 'execute', 'sync')
  assert.equal(beginCopyIn(protocol), true)
  assert.deepEqual(pending(protocol), ['execute'])
  send(protocol, 'sync')
  assert.deepEqual(pending(protocol), ['execute'])
  failBatch(protocol, refused)
  assert.deepEqual([protocol.copyIn, protocol.batch, isSettled(protocol)], [false, 'failed', false])
  send(protocol, 'sync')
  recordReady(protocol, IDLE)
  assert.ok(isSettled(protocol))
})

test('a COPY whose end was sent with it waits for no data', () => {
  const protocol = createProtocolState()
  send(protocol, 'execute', 'copy_end', 'sync')
  assert.equal(beginCopyIn(protocol), false)
  assert.deepEqual(pending(protocol), ['execute', 'sync'])
})

test('a response of the pooler waits for those before it', () => {
  const protocol = createProtocolState()
  const own: Expected = { kind: 'parse', instead: INSTEAD }
  assert.equal(recordSent(protocol, own), 'answered')
  assert.equal(protocol.batch, 'synced', 'the server has received nothing')
  send(protocol, 'bind')
  assert.equal(recordSent(protocol, own), 'sent')
  assert.deepEqual(pending(protocol), ['bind', 'parse'])
})

test('a hidden statement gets its error with ReadyForQuery', () => {
  const protocol = createProtocolState()
  const got: unknown[] = []
  const hidden: Expected = { kind: 'query', hidden: true, onAnswer: (error) => void got.push(error) }
  recordSent(protocol, hidden)
  recordSent(protocol, hidden)
  failBatch(protocol, refused)
  recordReady(protocol, FAILED)
  recordReady(protocol, IDLE)
  assert.deepEqual(got, [refused, undefined])
})
