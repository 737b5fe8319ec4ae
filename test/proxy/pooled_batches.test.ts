import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { makeScene, type Scene } from './protocol.ts'
import { bind, copyData, copyDone, execute, parse, query, type RawClient, rawClient, sync } from './protocol_client.ts'

/* Pooled clients that send batches ahead of the answers. */

let scene: Scene
before(async () => {
  scene = await makeScene()
})
after(() => scene.fixture.close())

const use = (name: string): Buffer[] => [bind('', name), execute()]
const FAILS = [parse('', 'select 1/0'), bind('', ''), execute()]

/** A pooled client that has prepared `s`, while both servers of the pool have been used by others since. */
async function withStatementElsewhere(): Promise<RawClient> {
  const client = await rawClient(scene.way('pooled'))
  client.send(parse('s', 'select 42'), sync())
  await client.answer()
  const others = await Promise.all([1, 2].map(() => rawClient(scene.way('pooled'))))
  for (const text of ['begin', 'commit'])
    for (const other of others) {
      other.send(query(text))
      await other.answer()
    }
  for (const other of others) other.close()
  return client
}

/** Errors by their SQLSTATE, rows, and the end of each batch. */
const outline = (answer: readonly string[]): string[] =>
  answer.flatMap((message) => /^(E \w+|D .*|Z \w)/.exec(message)?.[0] ?? [])

const CASES: Readonly<Record<string, { sent: Buffer[][]; expected: string[][] }>> = {
  'a batch behind one that fails before its use': {
    sent: [
      [...FAILS, ...use('s'), sync()],
      [...use('s'), sync()],
      [...use('s'), sync()],
    ],
    expected: [
      ['E 22012', 'Z I'],
      ['D 42', 'Z I'],
      ['D 42', 'Z I'],
    ],
  },
  'a batch behind one that fails after its use': {
    sent: [
      [...use('s'), ...FAILS, sync()],
      [...use('s'), sync()],
    ],
    expected: [
      ['D 42', 'E 22012', 'Z I'],
      ['D 42', 'Z I'],
    ],
  },
  'a batch that fails between two uses in others': {
    sent: [
      [...use('s'), sync()],
      [...FAILS, ...use('s'), sync()],
      [...use('s'), sync()],
    ],
    expected: [
      ['D 42', 'Z I'],
      ['E 22012', 'Z I'],
      ['D 42', 'Z I'],
    ],
  },
  'two failed batches, one behind the other': {
    sent: [
      [...FAILS, ...use('s'), sync()],
      [...FAILS, ...use('s'), sync()],
      [...use('s'), sync()],
    ],
    expected: [
      ['E 22012', 'Z I'],
      ['E 22012', 'Z I'],
      ['D 42', 'Z I'],
    ],
  },
  'batches that do not fail': {
    sent: [
      [...use('s'), sync()],
      [...use('s'), ...use('s'), sync()],
      [...use('s'), sync()],
    ],
    expected: [
      ['D 42', 'Z I'],
      ['D 42', 'D 42', 'Z I'],
      ['D 42', 'Z I'],
    ],
  },
}

for (const [name, { sent, expected }] of Object.entries(CASES))
  test(`a pipelined statement keeps its meaning: ${name}`, { timeout: 8_000 }, async () => {
    const client = await withStatementElsewhere()
    client.send(...sent.flat())
    const answers: string[][] = []
    for (const _ of sent) answers.push(outline(await client.answer()))
    assert.deepEqual(answers, expected)
    // Once all is answered, the server's statements are known again.
    for (let turn = 0; turn < 2; turn++) {
      client.send(...use('s'), sync())
      assert.deepEqual(outline(await client.answer()), ['D 42', 'Z I'])
    }
    client.send(query('select 1'))
    assert.deepEqual(outline(await client.answer()), ['D 1', 'Z I'])
    client.close()
  })

test(
  'no client gets the answers of another one that sent Syncs behind failing COPY data',
  { timeout: 30_000 },
  async () => {
    const [holder, copier, other] = await Promise.all([1, 2, 3].map(() => rawClient(scene.way('pooled'))))
    assert.ok(holder && copier && other)
    holder.send(query('begin'))
    await holder.answer()
    copier.send(parse('', 'copy item from stdin'), bind('', ''), execute(), sync())
    assert.match((await copier.next(3)).join(), /G/)
    const secrets = Array.from({ length: 6 }, (_, n) => query(`select 'secret ${n}', pg_sleep(.1)`))
    const syncs = Array.from({ length: 6 }, () => sync())
    copier.send(copyData('abc\n'), ...syncs, copyDone(), sync(), ...secrets)
    for (const text of ['first', 'second', 'third']) {
      other.send(query(`select '${text}'`))
      assert.deepEqual(outline(await other.answer()), [`D ${text}`, 'Z I'])
    }
    for (const client of [holder, copier, other]) client.close()
  },
)

test('a Parse that a failed transaction refuses removes the unnamed statement, as it does at Postgres', async () => {
  const batches = [
    [parse('', 'begin'), bind('', ''), execute(), execute('none'), parse('', 'select 1'), sync()],
    [parse('end', 'rollback'), bind('', 'end'), parse('', 'select 2'), sync()],
    [execute(), bind('', ''), sync()],
  ]
  for (const way of [scene.way(), scene.way('pooled')]) {
    const client = await rawClient(way)
    const answers: string[][] = []
    for (const messages of batches) {
      client.send(...messages)
      answers.push(outline(await client.answer()))
    }
    client.close()
    assert.deepEqual(answers, [
      ['E 34000', 'Z E'],
      ['E 25P02', 'Z E'],
      ['E 26000', 'Z I'],
    ])
  }
})
