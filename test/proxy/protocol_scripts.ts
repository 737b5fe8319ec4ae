import {
  bind,
  call,
  close,
  copyData,
  copyDone,
  copyFail,
  describe,
  execute,
  flush,
  parse,
  query,
  type RawClient,
  run,
  sync,
} from './protocol_client.ts'

/* Conversations message by message. The proxy must answer as Postgres itself does. */

type Script = (client: RawClient) => Promise<unknown>

/** Sends each step and collects the answer up to ReadyForQuery. */
const steps =
  (...all: (Buffer | readonly Buffer[])[]): Script =>
  async (client) => {
    const answers: string[][] = []
    for (const step of all) {
      client.send(...(Array.isArray(step) ? (step as Buffer[]) : [step as Buffer]))
      answers.push(await client.answer())
    }
    return answers
  }

/** Sends all messages at once and collects the answers up to `readies` times ReadyForQuery. */
const atOnce =
  (readies: number, ...all: Buffer[]): Script =>
  async (client) => {
    client.send(...all)
    const answers: string[][] = []
    for (let count = 0; count < readies; count++) answers.push(await client.answer())
    return answers
  }

/** Sends one message at a time and collects the given number of messages in answer to it. */
const stepwise =
  (...all: [Buffer, number][]): Script =>
  async (client) => {
    const answers: string[][] = []
    for (const [message, count] of all) {
      client.send(message, flush())
      answers.push(await client.next(count))
    }
    client.send(sync())
    return [...answers, await client.answer()]
  }

const bytewise =
  (readies: number, ...all: Buffer[]): Script =>
  async (client) => {
    client.socket.setNoDelay(true)
    for (const byte of Buffer.concat(all)) client.send(Buffer.of(byte))
    return atOnce(readies)(client)
  }

const conversation = [
  query('select 1; select 2'),
  parse('frag', 'select $1::text'),
  bind('', 'frag', 'x'),
  describe('P', ''),
  execute(),
  sync(),
  run('select 3'),
  close('S', 'frag'),
  sync(),
]

export const SCRIPTS: Readonly<Record<string, Script>> = {
  'several statements in one query': steps(
    query("select 1 as a; select 'b', null; set local x.y = 'z'; select 3"),
    query('select 1; select 1/0; select 2'),
    query('select 4'),
  ),
  'empty queries': steps(query(''), query(' ; '), [parse('', ''), bind('', ''), describe('P', ''), execute(), sync()]),
  'notices and warnings': steps(
    query("do $$ begin raise notice 'one'; raise warning 'two'; end $$"),
    query('rollback'),
    [run("do $$ begin raise notice 'three'; end $$"), sync()],
  ),
  'a batch with an error in its middle': atOnce(
    3,
    run('select 1'),
    run('select 1/0'),
    run('select 2'),
    sync(),
    run('select 3'),
    sync(),
    run('syntax error'),
    run('select 4'),
    sync(),
  ),
  'an error before the Sync is sent': async (client) => {
    client.send(run('select nonsense'), flush())
    const first = await client.next(1)
    client.send(parse('', 'select 1'), bind('', ''), query('select 2'), execute())
    client.send(sync(), run('select 3'), sync())
    return [first, await client.answer(), await client.answer()]
  },
  'a batch that fails undoes what it did': steps(
    query('delete from item'),
    [run("insert into item values (1, 'x')"), run('select 1/0'), sync()],
    query('select count(*) from item'),
    [run("insert into item values (1, 'x')"), sync()],
    [run('select 1/0'), sync()],
    query('select count(*) from item'),
    query('delete from item'),
  ),
  'Flush without Sync': stepwise(
    [parse('flushed', 'select generate_series(1, 3)'), 1],
    [describe('S', 'flushed'), 2],
    [bind('', 'flushed'), 1],
    [describe('P', ''), 1],
    [execute(), 4],
    [close('S', 'flushed'), 1],
  ),
  'named and unnamed statements across batches': steps(
    [parse('named', 'select $1::int + 1'), parse('', 'select $1::text'), sync()],
    [bind('', 'named', '41'), execute(), bind('', '', 'unnamed'), execute(), sync()],
    [bind('', '', 'again'), execute(), describe('S', ''), sync()],
    [bind('', 'named', 'wrong'), execute(), sync()],
    [bind('', 'named', '1'), execute(), sync()],
    query('select 1'),
    [bind('', '', 'forgotten'), execute(), sync()],
    [bind('', 'named', null), execute(), close('S', 'named'), sync()],
    [bind('', 'named', '1'), execute(), sync()],
  ),
  'a statement name that is taken': steps(
    [parse('twice', 'select 1'), sync()],
    [parse('twice', 'select 2'), sync()],
    [bind('', 'twice'), execute(), sync()],
    [close('S', 'twice'), parse('twice', 'select 3'), bind('', 'twice'), execute(), sync()],
  ),
  'names that a failed batch did not assign': steps(
    [parse('mine', 'select 1'), sync()],
    [run('select 1/0'), parse('other', 'select 1'), parse('mine', 'select 2'), sync()],
    [bind('', 'mine'), execute(), sync()],
    [bind('', 'other'), execute(), sync()],
    [parse('other', 'select 3'), bind('', 'other'), execute(), sync()],
    query('begin'),
    [parse('mine', 'select 4'), sync()],
    [bind('', 'mine'), execute(), sync()],
    query('rollback'),
  ),
  'statements closed and prepared in one batch': atOnce(
    4,
    parse('kept', 'select 1'),
    sync(),
    query('deallocate all'),
    parse('kept', 'select 2'),
    parse('new', 'select 3'),
    sync(),
    bind('', 'kept'),
    execute(),
    bind('', 'new'),
    execute(),
    sync(),
  ),
  'a name that a failed batch assigns and closes, after an answer of that batch': steps(
    [run('select pg_sleep(0.05)'), flush(), run('select 1/0'), parse('given', 'select 1'), close('S', 'given'), sync()],
    [bind('', 'given'), execute(), sync()],
  ),
  'an unnamed statement pipelined behind a failing batch': async (client) => {
    client.send(run('select pg_sleep(0.05)'), run('select 1/0'), parse('', 'select 1'), sync())
    client.send(parse('', 'select 2'), sync())
    const answers = [await client.answer(), await client.answer()]
    client.send(bind('', ''), execute(), sync())
    answers.push(await client.answer())
    client.send(run('select pg_sleep(0.05)'), parse('', 'nonsense'), sync(), parse('', 'select 3'), sync())
    client.send(run('select 1/0'), parse('', 'select 4'), sync(), bind('', ''), execute(), sync())
    for (let count = 0; count < 4; count++) answers.push(await client.answer())
    return answers
  },
  'a statement that cannot be prepared': steps(
    [parse('broken', 'select from nowhere at all'), describe('S', 'broken'), sync()],
    [parse('broken', 'select 1'), bind('', 'broken'), execute(), sync()],
    [parse('late', 'select 1'), parse('bad', 'select nonsense'), parse('never', 'select 2'), sync()],
    [bind('', 'late'), execute(), sync()],
    [bind('', 'never'), execute(), sync()],
  ),
  'portals with a limit of rows': steps(
    query('begin'),
    [parse('', 'select generate_series(1, 5)'), bind('p', ''), execute('p', 2), sync()],
    [execute('p', 2), describe('P', 'p'), sync()],
    [execute('p', 2), execute('p', 2), sync()],
    [close('P', 'p'), close('P', 'p'), execute('p'), sync()],
    query('rollback'),
  ),
  'a portal outside of a transaction': steps(
    [parse('', 'select generate_series(1, 3)'), bind('p', ''), execute('p', 1), execute('p', 1), sync()],
    [execute('p', 1), sync()],
    [parse('', 'select 1'), bind('p', ''), bind('p', ''), sync()],
  ),
  'missing statements and portals': steps(
    [bind('', 'nobody'), sync()],
    [describe('S', 'nobody'), sync()],
    [describe('P', 'nobody'), sync()],
    [execute('nobody'), sync()],
    [close('S', 'nobody'), close('P', 'nobody'), sync()],
  ),
  'Describe of statements with and without rows': steps(
    [parse('rows', 'select $1::int, $2::text'), describe('S', 'rows'), sync()],
    [parse('none', "insert into item values ($1, 'described')"), describe('S', 'none'), sync()],
    [bind('', 'rows', '1', 'two'), describe('P', ''), execute(), sync()],
    [parse('returns', 'delete from item where id = $1 returning *'), describe('S', 'returns'), sync()],
  ),
  'a Close and a Parse of one name in a batch': steps(
    [parse('a', 'select 1'), sync()],
    [parse('b', 'select 1'), close('S', 'a'), sync()],
    [bind('', 'b'), execute(), close('S', 'b'), parse('a', 'select 1'), bind('', 'a'), execute(), sync()],
    [parse('c', 'select 2'), close('S', 'a'), close('S', 'c'), run('select 3'), sync()],
  ),
  'function calls': steps(
    call(177, '40', '2'),
    query('begin'),
    call(177, '1', '1'),
    call(177, 'x', '1'),
    call(177, '1', '1'),
    query('rollback'),
    [parse('', 'select 1'), sync()],
  ),
  'several Syncs, and Flushes alone': atOnce(4, sync(), sync(), flush(), sync(), flush(), run('select 1'), sync()),
  'a simple query within a batch': steps(
    [parse('mixed', 'select 1'), query('select 2')],
    [bind('', 'mixed'), execute(), query('select 3')],
    [bind('', 'mixed'), execute(), sync()],
    [bind('q', 'mixed'), query('select 1/0')],
    [bind('', 'mixed'), execute(), sync()],
  ),
  'transactions, savepoints and their failures': steps(
    query('begin'),
    query("insert into item values (7, 'seven')"),
    query('savepoint one'),
    query('select 1/0'),
    query('select 1'),
    [run('select 2'), sync()],
    query('rollback to one'),
    query('select name from item where id = 7'),
    query('release one'),
    query('rollback'),
    query('select count(*) from item where id = 7'),
    query('commit'),
    query('begin; select 1/0'),
    query('commit'),
    [run('begin'), sync()],
    [run('select 1'), run('rollback'), sync()],
    query('begin isolation level serializable read only; show transaction_isolation; commit; select 5'),
    query('commit and chain'),
  ),
  'SQL cursors': steps(
    query('begin'),
    query('declare c scroll cursor for select generate_series(1, 5)'),
    query('fetch 2 from c'),
    [run('fetch 2 from c'), sync()],
    query('move backward 3 in c; fetch 1 from c; close c'),
    query('fetch c'),
    query('rollback'),
  ),
  'COPY in': steps(
    query('truncate arrived'),
    [query('copy arrived from stdin'), copyData('one\n'), copyData('two\nthr'), copyData('ee\n'), copyDone()],
    query('select count(*), max(line) from arrived'),
    [query('copy arrived from stdin'), copyData('four\n'), copyFail('thought better of it')],
    [query('copy arrived from stdin; select count(*) from arrived'), copyData('four\n'), copyDone()],
    query('select count(*) from arrived'),
  ),
  'a COPY in that fails halfway': steps(
    query('truncate arrived'),
    [query('copy arrived from stdin'), copyData('one\n'), copyData('a\tb\n'), copyData('two\n'), copyDone()],
    query('select count(*) from arrived'),
    [parse('', 'copy arrived from stdin'), bind('', ''), execute(), copyData('a\tb\n'), copyDone(), sync()],
    [query('begin; copy arrived from stdin'), copyData('a\tb\n'), copyDone()],
    query('select 1'),
    query('rollback'),
  ),
  'a COPY in of the extended protocol': async (client) => {
    client.send(query('truncate arrived'))
    const answers = [await client.answer()]
    client.send(parse('', 'copy arrived from stdin'), bind('', ''), describe('P', ''), execute(), flush())
    answers.push(await client.next(4))
    client.send(copyData('one\n'), copyDone(), sync())
    answers.push(await client.answer())
    client.send(parse('', 'copy arrived from stdin'), bind('', ''), execute(), sync())
    answers.push(await client.next(3))
    client.send(copyData('two\n'), copyDone(), sync())
    answers.push(await client.answer())
    client.send(parse('', 'copy arrived from stdin'), bind('', ''), execute(), flush())
    answers.push(await client.next(3))
    client.send(copyFail('no'), run('select 1'), sync())
    answers.push(await client.answer())
    client.send(query('select line from arrived'))
    return [...answers, await client.answer()]
  },
  'COPY out': steps(
    query("copy (select generate_series(1, 3), 'x') to stdout"),
    query('copy (select 1) to stdout; select 2'),
    [run('copy (select 1 where false) to stdout'), sync()],
    query('copy (select 1 / (3 - generate_series(1, 5))) to stdout'),
    [parse('out', 'copy (select 7) to stdout'), bind('', 'out'), execute(), bind('', 'out'), execute(), sync()],
  ),
  'CopyData without a COPY': steps([copyData('x'), copyDone(), copyFail('y'), query('select 1')]),
  'settings within a transaction': steps(
    query("begin; set local statement_timeout = '1h'; show statement_timeout; commit; show statement_timeout"),
    query("begin; set local timezone = 'Asia/Tokyo'"),
    query("select '2000-01-01 00:00:00+00'::timestamptz; rollback"),
    query("set timezone = 'Asia/Tokyo'"),
    query("select '2000-01-01 00:00:00+00'::timestamptz; reset timezone"),
    query("select '2000-01-01 00:00:00+00'::timestamptz"),
    query('begin; set local role alice; select current_user; commit'),
    query('set application_name = $$O\'Brien \\ "x"$$'),
    query('show application_name'),
    query("set datestyle = 'german'; select '2000-12-31'::date"),
    query("select '2000-12-31'::date; reset datestyle"),
  ),
  'temporary tables within a transaction': steps(
    query('begin'),
    query('create temp table mine (n int) on commit drop; insert into mine values (1), (2)'),
    [run('select sum(n) from mine'), sync()],
    query('commit'),
    query('select * from mine'),
    query('create temp table mine (n int); drop table mine'),
  ),
  'advisory locks of a transaction': steps(
    query('begin; select pg_advisory_xact_lock(42); select pg_try_advisory_xact_lock(42)'),
    query('commit'),
    query('select pg_try_advisory_xact_lock(42)'),
  ),
  'large objects': steps(
    query('begin'),
    query("select lo_create(4711); select lo_put(4711, 0, 'some bytes'); select lo_get(4711)"),
    query('select loread(lo_open(4711, 262144), 4)'),
    query('select lo_unlink(4711); commit'),
  ),
  'a plan whose table has changed': steps(
    // In a transaction: outside of one, another session may prepare the statement, and the plan fits.
    query('begin; create table shape (a int)'),
    [parse('shape', 'select * from shape'), bind('', 'shape'), execute(), sync()],
    query('alter table shape add b int'),
    [bind('', 'shape'), execute(), sync()],
    query('rollback'),
    [close('S', 'shape'), parse('shape', 'select 1'), bind('', 'shape'), execute(), sync()],
  ),
  'DEALLOCATE ALL and DISCARD ALL': steps(
    [parse('kept', 'select 1'), bind('', 'kept'), execute(), sync()],
    query('deallocate all'),
    [bind('', 'kept'), execute(), sync()],
    [parse('kept', 'select 2'), bind('', 'kept'), execute(), sync()],
    query('discard all'),
    [bind('', 'kept'), execute(), sync()],
    [parse('kept', 'select 3'), bind('', 'kept'), execute(), sync()],
    [run('discard all'), sync()],
    [bind('', 'kept'), execute(), sync()],
    query('select 1'),
  ),
  'DEALLOCATE of a statement of the protocol': steps(
    query('create temp table freed (a int); begin'),
    [
      parse('pdo_stmt_00000001', 'insert into freed values ($1)'),
      bind('', 'pdo_stmt_00000001', '1'),
      execute(),
      sync(),
    ],
    query('DEALLOCATE pdo_stmt_00000001'),
    query('select * from freed; commit; drop table freed'),
    [bind('', 'pdo_stmt_00000001', '2'), execute(), sync()],
    query('DEALLOCATE pdo_stmt_00000001'),
    [parse('pdo_stmt_00000001', 'select 3'), bind('', 'pdo_stmt_00000001'), execute(), sync()],
    query('deallocate prepare PDO_STMT_00000001 ;\n'),
    [bind('', 'pdo_stmt_00000001'), execute(), sync()],
  ),
  'DEALLOCATE of names that need quotes': steps(
    [parse('a "b"; C', 'select 1'), parse('all', 'select 1'), parse('prepare', 'select 2'), sync()],
    query('deallocate "a ""b""; C"'),
    [bind('', 'a "b"; C'), execute(), sync()],
    query('deallocate"all"'),
    [bind('', 'all'), execute(), sync()],
    query('deallocate prepare'),
    [bind('', 'prepare'), execute(), sync()],
    [parse('Élan', 'select 1'), parse('Mixed', 'select 2'), sync()],
    query('deallocate Élan'),
    query('deallocate Mixed'),
    [bind('', 'Mixed'), execute(), sync()],
    query('deallocate prepare all'),
    [bind('', 'Mixed'), execute(), sync()],
  ),
  'DEALLOCATE of a statement of SQL, or of none': steps(
    query('begin; prepare in_sql as select 1'),
    query('deallocate in_sql'),
    query('execute in_sql'),
    query('rollback'),
    query('deallocate unknown'),
  ),
  'DEALLOCATE in a failed transaction': steps(
    [parse('kept', 'select 1'), sync()],
    query('begin'),
    [bind('', 'kept'), execute(), sync()],
    query('select 1/0'),
    query('deallocate kept'),
    [run('deallocate kept'), sync()],
    query('rollback'),
    [bind('', 'kept'), execute(), sync()],
    query('deallocate kept'),
    [bind('', 'kept'), execute(), sync()],
  ),
  'DEALLOCATE by the protocol': steps(
    [parse('kept', 'select 1'), bind('', 'kept'), execute(), sync()],
    [run('deallocate "kept"'), parse('kept', 'select 2'), bind('', 'kept'), execute(), sync()],
    [run('select 1/0'), run('deallocate kept'), sync()],
    [bind('', 'kept'), execute(), sync()],
    [run('deallocate kept'), sync()],
    [run('deallocate kept'), sync()],
  ),
  'DEALLOCATE in a pipeline': atOnce(
    5,
    parse('kept', 'select 1'),
    sync(),
    query('deallocate kept'),
    parse('kept', 'select 2'),
    bind('', 'kept'),
    execute(),
    sync(),
    query('deallocate kept'),
    bind('', 'kept'),
    execute(),
    sync(),
  ),
  'DEALLOCATE one byte at a time': bytewise(2, parse('kept', 'select 1'), sync(), query('deallocate kept')),
  'one byte at a time': bytewise(3, ...conversation),
  'a pipeline of all messages': atOnce(3, ...conversation),
}
