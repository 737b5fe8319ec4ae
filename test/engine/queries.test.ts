import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { createVirtualFileSystem } from 'typescript/unstable/fs'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { type DeclaredColumn, type WrittenQuery, writtenQueries } from './queries.ts'

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

interface Column {
  readonly name: string
  readonly dataTypeID: number
  /** The column of a table that it is; 0 where it is an expression. */
  readonly tableID: number
  readonly columnID: number
}

/**
 * pg's own connection, as far as it is used to describe a statement without running it (Postgres manual, "Extended
 * Query").
 */
interface Connection {
  parse(query: { readonly text: string }): void
  describe(what: { readonly type: 'S' }): void
  sync(): void
}

/** How the catalog reads each type: see `types` in catalog.ts. */
const KINDS = new Map([
  ['bool', 'boolean'],
  ['bytea', 'Buffer'],
  ...['int2', 'int4', 'int8', 'float4', 'float8', 'oid'].map((name) => [name, 'number'] as const),
  ...['text', 'varchar', 'name', 'uuid', 'inet', 'timestamptz', 'numeric', 'bpchar'].map(
    (name) => [name, 'string'] as const,
  ),
])

/**
 * Columns that may be null in their table and not in these queries, by their conditions or by how such rows are made.
 */
const NEVER_NULL = new Set([
  'src/catalog/account.ts organization_id',
  'src/catalog/audit.ts subject',
  'src/catalog/branch.ts store_id',
  'src/catalog/endpoint.ts id',
  'src/catalog/idempotency.ts reply',
  'src/catalog/idempotency.ts status',
  'src/catalog/key_reader.ts name',
  'src/catalog/pg_setting.ts vartype',
  'src/catalog/sealed_rows.ts sealed',
  'src/engine/claim.ts started_at',
])

test('every query that the code writes is one of the catalog, and its columns are what the code says', () =>
  catalogs.with(async ({ url }) => {
    const queries = writtenQueries()
    assert.ok(queries.filter(({ columns }) => columns).length > 130)
    assert.ok(queries.length > 250)
    const client = new pg.Client(url)
    await client.connect()
    const { rows } = await client.query<{ oid: number; name: string }>(
      `select oid::int, case when typelem <> 0 and typcategory = 'A' then format_type(typelem, null) else typname end
              || case when typcategory = 'A' then '[]' else '' end as name from pg_type`,
    )
    const typeOf = new Map(rows.map(({ oid, name }) => [oid, name]))
    const { rows: mayBeNull } = await client.query<{ column: string }>(
      `select attrelid::int || ' ' || attnum as column from pg_attribute where not attnotnull and attnum > 0`,
    )
    const nullable = new Set(mayBeNull.map(({ column }) => column))
    const wrong: string[] = []
    for (const query of queries) {
      const described = await describe(client, query.text)
      if (typeof described === 'string') wrong.push(`${query.place}: ${described}`)
      else wrong.push(...differences(query, described, typeOf, nullable))
    }
    await client.end()
    assert.deepEqual(wrong, [])
  }))

test('this check sees a statement, a name, a type and a null that are wrong', () =>
  catalogs.with(async ({ url }) => {
    const client = new pg.Client(url)
    await client.connect()
    const described = await describe(client, 'select id, number, parent_id from branch where id = $1')
    assert.equal(await describe(client, 'select nome from branch'), 'column "nome" does not exist')
    const forms = read(
      `export const q = (isIt: boolean) => db.rows(sql\`select \${isIt ? sql\`name\` : sql\`nome\`} from branch\`)`,
    )
    const [right, wrong] = [await describe(client, forms[0]?.text ?? ''), await describe(client, forms[1]?.text ?? '')]
    assert.ok(Array.isArray(right))
    assert.equal(wrong, 'column "nome" does not exist')
    const { rows } = await client.query<{ tableID: number; columnID: number }>(
      `select attrelid::int as "tableID", attnum as "columnID" from pg_attribute
        where attrelid = 'branch'::regclass and attname = 'parent_id'`,
    )
    await client.end()
    const nullable = new Set(rows.map(({ tableID, columnID }) => `${tableID} ${columnID}`))
    const typeOf = new Map([
      [25, 'text'],
      [20, 'int8'],
      [23, 'int4'],
    ])
    const said = (columns: [string, DeclaredColumn][]) =>
      differences({ place: 'x.ts:1', text: '', columns: new Map(columns) }, described as Column[], typeOf, nullable)
    assert.deepEqual(said([['id', { type: 'string', isNullable: false }]]), [])
    assert.deepEqual(said([['name', { type: 'string', isNullable: false }]]), ['x.ts:1: there is no column name'])
    assert.equal(said([['number', { type: 'string', isNullable: false }]]).length, 1)
    assert.deepEqual(said([['parent_id', { type: 'string', isNullable: false }]]), ['x.ts:1: parent_id may be null'])
  }))

test('a query with fragments is read in each of its forms', () => {
  const declared = `
    export const JOINED = sql\`from a join b on b.id = a.b_id and b.kind = \${'x'}\`
    export const matches = (word: string) => sql\`name like \${word} || \${'%'}\``
  const queries = read(
    `
    import { JOINED, matches } from './declared.ts'
    const ordered = (by: string) => {
      if (by === 'name') return sql\`order by name\`
      return by ? sql\`order by id\` : undefined
    }
    function limited(most: number) { return sql\`limit \${most}\` }
    export function list(id: string, word: string, most: number, value: string | undefined) {
      const order = ordered(word) ?? 'none'
      if (order === 'none')
        return db.rows<{ id: string }>(sql\`select id \${JOINED} where id = \${id} and \${matches(word)}\`)
      return db.rows<{ id: string }>(
        word
          ? sql\`select id \${value === undefined ? sql\`\` : (sql\`where c = \${value}\`)} \${limited(most)}\`
          : sql\`select 1\`,
      )
    }
    export const either = (now: string | undefined) =>
      db.rows(sql\`select \${now ?? null}, \${now ? sql\`now()\` : 1}\`)
    export function narrowed(by: string) {
      const order = ordered(by)
      return order && db.rows(sql\`select 1 \${order}\`)
    }`,
    declared,
  )
  assert.deepEqual(
    queries.map(({ text }) => text),
    [
      'select id from a join b on b.id = a.b_id and b.kind = $1 where id = $2 and name like $3 || $4',
      'select id  limit $1',
      'select id where c = $1 limit $2',
      'select 1',
      'select $1, now()',
      'select $1, $2',
      'select 1 order by name',
      'select 1 order by id',
    ],
  )
  assert.deepEqual(
    queries.map(({ columns }) => columns && [...columns.keys()]),
    [['id'], ['id'], ['id'], ['id'], undefined, undefined, undefined, undefined],
  )
})

test('a fragment that the code does not name is an error, and so is one that stands for a statement', () => {
  const parameter = `export const list = (where: ReturnType<typeof sql>) => db.rows(sql\`select 1 \${where}\`)`
  assert.throws(() => read(parameter), /^Error: src\/queries\.ts:2: which fragment is where\?$/)
  const widened = `export const list = (where: SqlStatement) => db.rows(sql\`select 1 \${where}\`)`
  assert.throws(() => read(`import type { SqlStatement } from './sql.ts'\n${widened}`), /which fragment is where\?$/)
  const variable = `let part = sql\`where a\`\nexport const list = () => db.rows(sql\`select 1 \${part}\`)`
  assert.throws(() => read(variable), /which fragment is part\?$/)
  assert.deepEqual(
    read('export const UNUSED = sql`where a`').map(({ text }) => text),
    ['where a'],
  )
})

/** The queries of a module beside the tag and another module. */
function read(queries: string, declared = ''): WrittenQuery[] {
  const head = `import { db, sql } from './sql.ts'\n`
  const files = {
    '/sample/tsconfig.json': JSON.stringify({
      compilerOptions: { strict: true, noEmit: true, allowImportingTsExtensions: true, types: [] },
      include: ['src'],
    }),
    '/sample/src/sql.ts': `
      export interface SqlStatement { readonly text: string }
      export interface SqlFragment extends SqlStatement { readonly parts: readonly string[] }
      export declare function sql(strings: TemplateStringsArray, ...values: unknown[]): SqlFragment
      export declare const db: { rows<R>(statement: SqlFragment): Promise<R[]> }`,
    '/sample/src/declared.ts': head + declared,
    '/sample/src/queries.ts': head + queries,
  }
  return writtenQueries('/sample/', createVirtualFileSystem(files))
}

/** The columns that a statement answers with, or why the catalog does not take it. */
function describe(client: pg.Client, text: string): Promise<readonly Column[] | string> {
  return new Promise((resolve) => {
    let columns: readonly Column[] = []
    const query = {
      submit(connection: Connection) {
        connection.parse({ text })
        connection.describe({ type: 'S' })
        connection.sync()
      },
      handleParseComplete() {},
      handleRowDescription: ({ fields }: { fields: readonly Column[] }) => void (columns = fields),
      handleError: ({ message }: Error) => resolve(message),
      handleReadyForQuery: () => resolve(columns),
    }
    client.query(query as unknown as pg.Submittable)
  })
}

function differences(
  { place, columns }: WrittenQuery,
  described: readonly Column[],
  typeOf: ReadonlyMap<number, string>,
  nullable: ReadonlySet<string>,
): string[] {
  if (!columns) return []
  const answered = new Map(described.map((column) => [column.name, column]))
  return [...columns].flatMap(([name, declared]) => {
    const column = answered.get(name)
    if (!column) return [`${place}: there is no column ${name}`]
    const type = typeOf.get(column.dataTypeID) ?? String(column.dataTypeID)
    const mayBeNull = nullable.has(`${column.tableID} ${column.columnID}`)
    if (mayBeNull && !declared.isNullable && !NEVER_NULL.has(`${place.split(':')[0]} ${name}`))
      return [`${place}: ${name} may be null`]
    return fits(declared, type) ? [] : [`${place}: ${name} is ${type}, the code says ${declared.type}`]
  })
}

function fits({ type: declared }: DeclaredColumn, type: string): boolean {
  if (type === 'jsonb') return true
  const [element, kind] = [type.replace(/\[\]$/, ''), declared.replace(/\[\]$/, '')]
  return KINDS.get(element) === kind && type.endsWith('[]') === declared.endsWith('[]')
}
