import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { superuser } from '../admin.ts'
import { connect, query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { kill, until } from '../processes.ts'
import { branchOff, firstPlace, type Place, suspend } from '../project.ts'

/* Many branches of one parent, asked for at once while clients write to it. */

const WRITERS = 4
const CHILDREN = 8

let neap: Neap
let parent: Place

before(async () => {
  neap = await startNeap()
  parent = await firstPlace(neap)
  await query(
    neap,
    parent.uri,
    `create table entry (writer int, number int, text text, primary key (writer, number));
     create table mirror (writer int, number int, hash text);
     create index on mirror (hash)`,
  )
})

after(() => neap?.stop())

/** Writes numbered rows, each in both tables in one transaction, until stopped. */
async function write(writer: number) {
  const client = await connect(neap, parent.uri)
  let last = 0
  let isOver = false
  const over = (async () => {
    while (!isOver) {
      const values = [writer, last + 1]
      await client.query('begin')
      await client.query('insert into entry values ($1, $2, repeat(md5($2::int::text), 10))', values)
      await client.query('insert into mirror values ($1, $2, md5(repeat(md5($2::int::text), 10)))', values)
      await client.query('commit')
      last++
    }
    await client.end()
  })()
  return {
    last: () => last,
    stop: async () => {
      isOver = true
      await over
    },
  }
}

/** Kills the first copier that fills another directory than those there were. */
async function killCopier(known: readonly string[]): Promise<void> {
  const directory = join(neap.ready.data_dir, 'branches')
  const pid = await until('a copier', () => {
    const added = readdirSync(directory).filter((id) => !known.includes(id))
    const notes = added.map((id) => join(directory, id, 'copier')).filter((path) => existsSync(path))
    // Empty until it is written.
    return notes.map((path) => Number.parseInt(readFileSync(path, 'utf8'), 10)).find((found) => found > 0)
  })
  await kill(pid)
}

test('each of many branches has the rows committed before its request, whole, though a copier is killed', async () => {
  const writers = await Promise.all(Array.from({ length: WRITERS }, (_, index) => write(index)))
  await until('rows are written', () => writers.every(({ last }) => last() > 20))
  const known = readdirSync(join(neap.ready.data_dir, 'branches'))
  const asked = Array.from({ length: CHILDREN }, async () => {
    const committed = writers.map(({ last }) => last())
    return { committed, place: await branchOff(neap, parent) }
  })
  await killCopier(known)
  const children = await Promise.all(asked)
  for (const { stop } of writers) await stop()
  for (const { committed, place } of children) {
    const rows = await query<{ writer: number; rows: number; last: number; torn: number }>(
      neap,
      place.uri,
      `select writer, count(*)::int as rows, max(number)::int as last,
              count(*) filter (where m.hash is distinct from md5(e.text))::int as torn
         from entry e full join mirror m using (writer, number) group by writer order by writer`,
    )
    assert.equal(rows.length, WRITERS)
    for (const row of rows) {
      assert.deepEqual([row.rows, row.torn], [row.last, 0], 'no row is missing, and none is half there')
      assert.ok(row.last >= (committed[row.writer] ?? Infinity), `${row.last} of ${committed[row.writer]}`)
    }
    await checkIndexes(place)
    await suspend(neap, place)
  }
})

/** Compares the indexes of a branch with its tables by the extension amcheck. */
async function checkIndexes(place: Place): Promise<void> {
  const admin = await superuser(neap, place, decodeURIComponent(new URL(place.uri).pathname.slice(1)))
  await admin.query('create extension if not exists amcheck')
  await admin.query(
    `select bt_index_check(c.oid, true) from pg_class c join pg_am a on a.oid = c.relam
      where a.amname = 'btree' and c.relkind = 'i' and c.relpersistence = 'p'`,
  )
  await admin.end()
}
