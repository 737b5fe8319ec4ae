import assert from 'node:assert/strict'
import { after, before, test as nodeTest } from 'node:test'
import type pg from 'pg'
import { observer, until } from './fixture.ts'
import { makeScene, type Scene } from './protocol.ts'
import {
  bind,
  describe,
  execute,
  flush,
  parse,
  query,
  type RawClient,
  rawClient,
  run,
  sync,
} from './protocol_client.ts'

/*
 * The session of a pooled client ends while it is in use: the client's error, and its transaction status after that.
 * 40001 if no commit is possible, 40003 if that is unknown; idle if the sent messages would have ended the transaction.
 */

const test = (name: string, body: () => Promise<void>): void => void nodeTest(name, { timeout: 60_000 }, body)

let scene: Scene
let watcher: pg.Client

before(async () => {
  scene = await makeScene()
  watcher = await observer(scene.fixture)
  await watcher.query(`
    set role alice;
    create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(600); return null; end $$;
    create table slow (n int);
    create table entry (n int);
    create constraint trigger nap after insert on slow deferrable initially deferred
      for each row execute function nap();
    reset role;`)
})
after(async () => {
  await watcher.end()
  await scene.fixture.close()
})

/** Ends the session that sleeps. */
const endSleeper = (): Promise<unknown> =>
  until(async () => {
    const { rowCount } = await watcher.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'alice' and wait_event = 'PgSleep'",
    )
    return rowCount === 1
  })

/** Errors by their SQLSTATE, rollbacks, states. */
const outline = (answer: readonly string[]): string[] =>
  answer.flatMap((message) => /^(E \w+|Z \w|C ROLLBACK)/.exec(message)?.[0] ?? [])

const NAP = 'select pg_sleep(600)'
const IN_SLOW = 'begin; insert into slow values (1)'
const LONG = 'x'.repeat(100_000)

interface Case {
  /** Messages that are sent and answered before. */
  readonly first?: readonly Buffer[]
  /** Messages that are under way when the session ends. */
  readonly sent: readonly Buffer[]
  readonly expected: readonly string[]
}

const CASES: Readonly<Record<string, Case>> = {
  'a COMMIT': { first: [query(IN_SLOW)], sent: [query('commit')], expected: ['E 40003', 'Z I'] },
  'an END behind a comment': {
    first: [query(IN_SLOW)],
    sent: [query('/* of /* an */ app */ -- and\n end')],
    expected: ['E 40003', 'Z I'],
  },
  'PREPARE TRANSACTION': {
    first: [query(IN_SLOW)],
    sent: [query("prepare transaction 'p'")],
    expected: ['E 40003', 'Z I'],
  },
  'a COMMIT prepared by a name in its batch': {
    first: [query(IN_SLOW)],
    sent: [parse('ends', 'commit'), bind('', 'ends'), describe('P', ''), execute(), sync()],
    expected: ['E 40003', 'Z I'],
  },
  'a COMMIT prepared before': {
    first: [Buffer.concat([parse('e', 'commit'), sync()]), query(IN_SLOW)],
    sent: [bind('', 'e'), execute(), sync()],
    expected: ['E 40003', 'Z I'],
  },
  'a COMMIT as the unnamed statement, parsed before': {
    first: [query(IN_SLOW), Buffer.concat([parse('', 'commit'), describe('S', ''), sync()])],
    sent: [bind('', ''), execute(), sync()],
    expected: ['E 40003', 'Z I'],
  },
  'a query that ends in a COMMIT': {
    first: [query('begin')],
    sent: [query(`${NAP}; commit`)],
    expected: ['E 40003', 'Z I'],
  },
  'a query that begins another transaction behind a COMMIT': {
    first: [query('begin')],
    sent: [query(`select 1; commit; begin; ${NAP}`)],
    expected: ['E 40003', 'Z E'],
  },
  'a COMMIT AND CHAIN': { first: [query(IN_SLOW)], sent: [query('commit and chain')], expected: ['E 40003', 'Z E'] },
  'a batch with a COMMIT in it': {
    first: [query('begin')],
    sent: [run(NAP), run('commit'), sync()],
    expected: ['E 40003', 'Z I'],
  },
  'a pipeline with a COMMIT in it': {
    first: [query('begin')],
    sent: [run(NAP), sync(), run('commit'), sync()],
    expected: ['E 40003', 'Z E', 'E 40003', 'Z I'],
  },
  'a pipeline with a ROLLBACK at its end': {
    first: [query('begin')],
    sent: [query(NAP), query('rollback')],
    expected: ['E 40001', 'Z E', 'C ROLLBACK', 'Z I'],
  },
  'a pipeline that goes on behind its COMMIT': {
    first: [query(IN_SLOW)],
    sent: [query('commit'), query('insert into entry values (1)')],
    expected: ['E 40003', 'Z I', 'E 40003', 'Z I'],
  },
  'a statement': { first: [query('begin')], sent: [query(NAP)], expected: ['E 40001', 'Z E'] },
  'a statement behind a comment': {
    first: [query('begin')],
    sent: [query(`/* commit */ ${NAP}`)],
    expected: ['E 40001', 'Z E'],
  },
  'a statement that contains END': {
    first: [query('begin')],
    sent: [run("select case when true then 'commit' end, pg_sleep(600)"), sync()],
    expected: ['E 40001', 'Z E'],
  },
  'a query that creates a function with END in its body': {
    first: [query('begin')],
    sent: [query(`create function f() returns int begin atomic select 1; end; ${NAP}`)],
    expected: ['E 40001', 'Z E'],
  },
  'the unnamed statement, parsed before': {
    first: [query('begin'), Buffer.concat([parse('', NAP), describe('S', ''), sync()])],
    sent: [bind('', ''), execute(), sync()],
    expected: ['E 40001', 'Z E'],
  },
  'a statement with a value longer than the limit': {
    first: [query('begin')],
    sent: [parse('', 'select pg_sleep(600), length($1::text)'), bind('', '', LONG), execute(), sync()],
    expected: ['E 40001', 'Z E'],
  },
  'a rollback to a savepoint': {
    first: [query('begin; savepoint s')],
    sent: [query(`rollback to s; ${NAP}`)],
    expected: ['C ROLLBACK', 'E 40001', 'Z E'],
  },
  'a statement without a transaction, behind one that was answered': {
    sent: [query('select 1'), query(NAP)],
    expected: ['Z I', 'E 40003', 'Z I'],
  },
  'a transaction that begins in the sent messages': {
    sent: [query('select 1'), query(`begin; ${NAP}`)],
    expected: ['Z I', 'E 40001', 'Z E'],
  },
  'a batch that begins its transaction': {
    sent: [query('select 1'), run('begin'), run(NAP), sync()],
    expected: ['Z I', 'E 40001', 'Z E'],
  },
  'a whole transaction in one query': {
    sent: [query('select 1'), query(`begin; ${NAP}; commit`)],
    expected: ['Z I', 'E 40003', 'Z I'],
  },
}

for (const [name, { first = [], sent, expected }] of Object.entries(CASES))
  test(`${name}: ${expected.join(', ')}`, async () => {
    const client = await rawClient(scene.way('pooled'))
    for (const message of first) {
      client.send(message)
      await client.answer()
    }
    client.send(...sent)
    await endSleeper()
    const answered: string[] = []
    for (const _ of expected.filter((one) => one.startsWith('Z'))) answered.push(...outline(await client.answer()))
    assert.deepEqual(answered, expected)
    if (expected.at(-1) === 'Z E') {
      client.send(query('insert into entry values (2)'))
      assert.deepEqual(outline(await client.answer()), ['E 25P02', 'Z E'])
      client.send(query('rollback'))
      assert.deepEqual(await client.answer(), ['C ROLLBACK', 'Z I'])
    }
    client.send(query('select count(*) from entry'))
    assert.deepEqual(await client.answer(), ['T 1', 'D 0', 'C SELECT 1', 'Z I'])
    client.close()
  })

test('a portal read in part outside a transaction fails at its next message, before the Sync', async () => {
  const client = await rawClient(scene.way('pooled'))
  const rows = 'select pg_backend_pid() from generate_series(1, 100000)'
  client.send(parse('', rows), bind('', ''), execute('', 1), flush())
  const [pid = ''] = (await client.next(4)).flatMap((message) => /^D (\d+)/.exec(message)?.[1] ?? [])
  await watcher.query('select pg_terminate_backend($1, 10000)', [pid])
  client.send(execute('', 1), flush())
  assert.deepEqual(outline(await client.next(1)), ['E 40003'])
  client.send(execute('', 1), flush(), sync())
  assert.deepEqual(await client.answer(), ['Z I'])
  client.send(query('select count(*) from entry'))
  assert.deepEqual(await client.answer(), ['T 1', 'D 0', 'C SELECT 1', 'Z I'])
  client.close()
})

test('a batch without its Sync, in a transaction: the next statement after ROLLBACK is run', async () => {
  const client = await rawClient(scene.way('pooled'))
  client.send(query('begin'))
  await client.answer()
  client.send(run(NAP), flush())
  await endSleeper()
  assert.deepEqual(outline(await client.next(3)), ['E 40001'])
  client.send(execute(), sync())
  assert.deepEqual(await client.answer(), ['Z E'])
  client.send(query('rollback'))
  assert.deepEqual(await client.answer(), ['C ROLLBACK', 'Z I'])
  client.send(query('select count(*) from entry'))
  assert.deepEqual(await client.answer(), ['T 1', 'D 0', 'C SELECT 1', 'Z I'])
  client.close()
})

/** Returns a client after its session has ended within a transaction, before it gets an error. */
async function cutOff(): Promise<RawClient> {
  const client = await rawClient(scene.way('pooled'))
  client.send(query('begin; select pg_backend_pid()'))
  const row = (await client.answer()).find((message) => message.startsWith('D '))
  await watcher.query('select pg_terminate_backend($1, 10000)', [row?.slice(2)])
  return client
}

const EXITS: Readonly<Record<string, readonly [Buffer, readonly string[]]>> = {
  'ROLLBACK behind a comment': [query('/* of an app */ rollback'), ['C ROLLBACK', 'Z I']],
  'ROLLBACK prepared by a name': [
    Buffer.concat([parse('back', 'rollback'), bind('', 'back'), execute(), sync()]),
    ['C ROLLBACK', 'Z I'],
  ],
  'ROLLBACK before a flush': [
    Buffer.concat([parse('', 'rollback'), bind('', ''), execute(), flush(), sync()]),
    ['C ROLLBACK', 'Z I'],
  ],
  'ROLLBACK with more behind it': [query('rollback; begin; select 1'), ['C ROLLBACK', 'Z T']],
  'ROLLBACK AND CHAIN': [query('rollback and chain'), ['E 40001', 'Z E']],
  'COMMIT, which fails': [query('commit'), ['E 40001', 'Z I']],
  'COMMIT prepared by a name': [
    Buffer.concat([parse('done', 'commit'), bind('', 'done'), execute(), sync()]),
    ['E 40001', 'Z I'],
  ],
  'COMMIT with more behind it': [query('commit; insert into entry values (3)'), ['E 40001', 'Z I']],
  'PREPARE TRANSACTION': [query("prepare transaction 'p'"), ['E 40001', 'Z I']],
  'COMMIT PREPARED, which does not end it': [query("commit prepared 'p'"), ['E 40001', 'Z E']],
}

for (const [name, [sent, expected]] of Object.entries(EXITS))
  test(`a client leaves a lost transaction by ${name}`, async () => {
    const client = await cutOff()
    client.send(sent)
    assert.deepEqual(outline(await client.answer()), expected)
    if (expected.at(-1) !== 'Z I') {
      client.send(query('rollback'))
      assert.deepEqual(outline(await client.answer()), ['C ROLLBACK', 'Z I'])
    }
    if (name.includes('by a name') && name.startsWith('ROLLBACK')) {
      client.send(query('begin'), bind('', 'back'), execute(), sync())
      await client.answer()
      assert.deepEqual(outline(await client.answer()), ['C ROLLBACK', 'Z I'])
    }
    client.send(query('select count(*) from entry'))
    assert.deepEqual(await client.answer(), ['T 1', 'D 0', 'C SELECT 1', 'Z I'])
    client.close()
  })
