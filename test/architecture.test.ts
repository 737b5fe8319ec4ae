import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

/**
 * Allowed imports in src: a folder or file, and the parts it may import besides itself. `(types)` allows `import type`
 * only. Imports go downward. An unlisted part may import no other part, and only main and parts may import it.
 */
const MAY_IMPORT: Record<string, string> = {
  main: '*',
  parts: '*', // wires the modules of each process, like main

  cli: `backup(types), bytes, client, compute, config, errors, observe, public_address, rotation, settings, supervisor,
    walls, http(types)`,
  console: 'client, http(types)',
  client: 'errors, http(types)',
  supervisor: `backoff, backup, catalog, cli, client, compute, config, directories, disk_reserve, durable_file, errors,
    host, ids, network, observe, operations, postgres, public_address, race, rotation, secrets, settings, storage, tls,
    walls`,

  http: `catalog, commands, compute_admin(types), config, context(types), disk_reserve, errors, ids, network, observe,
    pipelining, postgres, public_address, race, secrets, size, views, webhooks`,
  proxy: `address_range, backoff, catalog, config(types), context(types), errors, ids, network, observe,
    key_handover, login_code, operations, postgres, race, tls`,
  commands: `address_range, catalog, compute(types), compute_admin, config(types), context(types), errors, ids,
    key_handover, login_code, operations, postgres, secrets, shared_runs, size, webhooks`,
  views: 'catalog, config(types), public_address',
  loops: `backup, bytes, catalog, commands, compute(types), compute_admin, config(types), context(types), engine,
    errors, event_loop, host, in_turn, machine_sleep, network, observe, operations, postgres, scaling, size, storage,
    webhooks`,
  scaling: 'compute(types), size',
  operations: `await_condition, catalog, compute(types), compute_admin, config(types), context(types), engine, errors,
    host(types), ids, observe, postgres, secrets(types), storage(types), walls(types)`,
  context: 'catalog(types), compute(types), config(types), host(types), observe(types), secrets(types), storage(types)',

  rotation: 'catalog, compute, config(types), errors, postgres, public_address, secrets, tls',
  webhooks: 'backoff, catalog, errors, network, race, secrets',
  compute_admin: 'catalog, compute(types), errors, postgres, race, secrets(types)',
  engine: 'backoff, catalog, errors, event_loop, machine_sleep, race',
  catalog: 'await_condition, errors, ids, race, shared_runs',
  compute: 'await_condition, durable_file, errors, host, network, postgres, race, secrets, size, storage, walls',
  backup: 'durable_file, errors, host, postgres, storage',
  storage: 'bytes, durable_file, errors, host, postgres, race, secrets',
  host: 'await_condition, directories, durable_file, errors, observe, postgres, race, secrets(types)',
  observe: 'errors, pipelining, race',
  config: 'directories, errors, setting_kinds, settings',
  settings: 'directories, disk_settings, retention_settings, setting_kinds, sign_in_settings',
  disk_settings: 'setting_kinds',
  retention_settings: 'setting_kinds',
  sign_in_settings: 'setting_kinds',
  directories: 'errors',
  public_address: 'config(types), network',
  setting_kinds: 'network',
  tls: 'durable_file, errors, event_loop, network',
  disk_reserve: 'config(types)',
  machine_sleep: '',
  address_range: '',
  key_handover: '',
  login_code: '',
  postgres: 'race, size',
  size: '',
  bytes: '',
  walls: '',
  event_loop: 'backoff',
  await_condition: '',
  in_turn: 'race',
  backoff: '',
  race: '',
  secrets: 'base62, durable_file, errors',
}
/**
 * Allowed imports in src/proxy: a folder, and the folders it may import besides itself. A folder imports only folders
 * further down the table. The files beside the folders connect them: no folder imports those.
 */
const PROXY_MAY_IMPORT: Record<string, string> = {
  sql_http: 'accept, connect, wire',
  pool: 'accept, auth, connect, session, suspend, wire',
  session: 'accept, auth, connect, suspend, wire',
  auth: 'accept, connect, wire',
  connect: 'suspend, wire',
  accept: 'wire',
  suspend: '',
  wire: '',
}
const MAY_READ_THE_ENVIRONMENT = ['main.ts', 'config.ts', 'directories.ts']
const MAX_LINES = 400
const MAX_COLUMNS = 120
/** Words that leave open which thing is meant; a comment names it (docs/glossary.md). */
const PRONOUNS = new Set(
  `who whoever whom whose what whatever nobody nothing none somebody something anybody anything everybody everything
  everyone someone anyone whichever`.split(/\s+/),
)
const MAX_PRONOUNS = 4

const root = join(import.meta.dirname, '..', 'src')
const sources = new Map(
  globSync('**/*.ts', { cwd: root }).map((path) => [path, readFileSync(join(root, path), 'utf8')]),
)

test('imports go only where the table lets them', () => {
  none([...sources].flatMap(([path, text]) => forbiddenImports(path, text)))
})

test('imports between the folders of the proxy go only where their table lets them', () => {
  none([...sources].flatMap(([path, text]) => forbiddenProxyImports(path, text)))
})

test('the folders of the proxy import downward', () => {
  const folders = Object.keys(PROXY_MAY_IMPORT)
  const upward = folders.flatMap((folder, index) =>
    namesIn(PROXY_MAY_IMPORT[folder]).filter((name) => folders.indexOf(name) <= index),
  )
  none(upward)
})

test('the environment is read where settings are made only', () => {
  const readers = [...sources].filter(([path, text]) => readsEnvironment(text) && !isTest(path)).map(([path]) => path)
  none(
    readers.filter((path) => !MAY_READ_THE_ENVIRONMENT.includes(path)).map((path) => `src/${path} reads process.env`),
  )
})

test(`no file has more than ${MAX_LINES} lines`, () => {
  const lengths = [...sources].map(([path, text]) => ({ path, lines: text.split('\n').length - 1 }))
  none(lengths.filter(({ lines }) => lines > MAX_LINES).map(({ path, lines }) => `src/${path} has ${lines} lines`))
})

test(`no line has more than ${MAX_COLUMNS} columns`, () => {
  const paths = globSync('{src,test,bench}/**/*.ts', { cwd: join(root, '..') })
  assert.ok(paths.length > 300)
  none(paths.flatMap((path) => wideLines(path, readFileSync(join(root, '..', path), 'utf8'))))
})

test('no exported type name stands twice', () => {
  const places = new Map<string, string[]>()
  for (const [path, text] of sources)
    for (const name of exportedTypes(text)) places.set(name, [...(places.get(name) ?? []), path])
  none([...places].flatMap(([name, paths]) => (paths.length > 1 ? [`${name} is exported by ${paths.join(', ')}`] : [])))
})

test(`comments have at most ${MAX_PRONOUNS} indefinite pronouns per thousand words`, () => {
  const comments = globSync('{src,test,bench}/**/*.ts', { cwd: join(root, '..') }).flatMap((path) =>
    commentWords(readFileSync(join(root, '..', path), 'utf8')),
  )
  assert.ok(comments.length > 10_000)
  const pronouns = comments.filter((word) => PRONOUNS.has(word))
  assert.ok(1_000 * pronouns.length <= MAX_PRONOUNS * comments.length, `${pronouns.length} of ${comments.length} words`)
})

test('these checks see what they are for', () => {
  assert.equal(forbiddenImports('proxy/x.ts', `import { y } from '../storage/y.ts'`).length, 1)
  assert.equal(
    forbiddenImports('proxy/x.ts', `import {\n  y,\n} from '../compute_admin/y.ts'\nawait import('../secrets.ts')`)
      .length,
    2,
  )
  assert.equal(forbiddenImports('http/routes/x.ts', `import { type A, b } from '../../context.ts'`).length, 1)
  assert.equal(forbiddenImports('http/routes/x.ts', `import { type A, type B } from '../../context.ts'`).length, 0)
  assert.equal(forbiddenImports('http/routes/x.ts', `export type { A } from '../../context.ts'`).length, 0)
  assert.equal(forbiddenImports('newcomer/x.ts', `import { y } from '../errors.ts'`).length, 1)
  assert.equal(forbiddenProxyImports('proxy/wire/x.ts', `import type { Y } from '../pool/y.ts'`).length, 1)
  assert.equal(forbiddenProxyImports('proxy/pool/x.ts', `import { y } from '../context.ts'`).length, 1)
  assert.equal(forbiddenProxyImports('proxy/newcomer/x.ts', `import { y } from '../wire/y.ts'`).length, 1)
  assert.equal(forbiddenProxyImports('proxy/pool/x.ts', `import { y } from '../wire/y.ts'`).length, 0)
  assert.equal(forbiddenProxyImports('proxy/x.ts', `import { y } from './pool/y.ts'`).length, 0)
  assert.deepEqual(wideLines('src/x.ts', `${'a'.repeat(120)}\n  ${'–'.repeat(118)}\n${'a '.repeat(61)}\n`), [
    'src/x.ts:3 has 122 columns',
  ])
  assert.equal(wideLines('src/x.ts', `  /^(${'a|'.repeat(60)}b)$/\n  // ${'https://a.example/'.repeat(8)}\n`).length, 0)
  assert.equal(
    wideLines('src/x.ts', `// as ${'https://a.example/'.repeat(8)} says\nif (/^${'a|'.repeat(60)}/)`).length,
    2,
  )
  assert.deepEqual(exportedTypes('export type A = B\nexport interface C {}\ntype D = A'), ['A', 'C'])
  assert.deepEqual(commentWords('/** Who asks. */\nconst a = 1 // what\n'), ['who', 'asks', 'what'])
  assert.ok(readsEnvironment('const { HOME } = process.env') && readsEnvironment(`import { env } from 'node:process'`))
})

function forbiddenImports(path: string, text: string): string[] {
  const from = partOf(path)
  const allowed = MAY_IMPORT[from] ?? ''
  if (allowed === '*' || isTest(path)) return []
  const names = namesIn(allowed)
  return importsIn(text).flatMap(({ target, typesOnly }) => {
    const imported = join(dirname(path), target)
    const to = partOf(imported)
    if (to === from || names.includes(to) || (typesOnly && names.includes(`${to}(types)`))) return []
    return [`src/${path} → src/${imported}   (${from} may import: ${allowed || 'nothing; is it in the table?'})`]
  })
}

function forbiddenProxyImports(path: string, text: string): string[] {
  const from = proxyFolder(path)
  if (from === undefined || isTest(path)) return []
  const allowed = namesIn(PROXY_MAY_IMPORT[from])
  return importsIn(text).flatMap(({ target }) => {
    const imported = join(dirname(path), target)
    const to = proxyFolder(imported) ?? imported
    if (partOf(imported) !== 'proxy' || to === from || allowed.includes(to)) return []
    return [`src/${path} → src/${imported}   (proxy/${from} may import: ${allowed.join(', ') || 'nothing'})`]
  })
}

/** The folder of a file below src/proxy. undefined for files beside the folders, and for those of other parts. */
function proxyFolder(path: string): string | undefined {
  return /^proxy\/([^/]+)\//.exec(path)?.[1]
}

function namesIn(list = ''): string[] {
  return list.split(/,\s*/).filter((name) => name !== '')
}

/** The relative imports of a module: static, dynamic, and re-exports. */
function importsIn(text: string): { target: string; typesOnly: boolean }[] {
  const statics = text.matchAll(/^(?:import|export)\s+(type\s)?([^'"]*?)\s*(?:\bfrom\s*)?'(\.[^']*)'/gm)
  const dynamics = text.matchAll(/\bimport\(\s*'(\.[^']*)'\s*\)/g)
  return [
    ...[...statics].map(([, type, names = '', target = '']) => ({ target, typesOnly: !!type || onlyTypes(names) })),
    ...[...dynamics].map(([, target = '']) => ({ target, typesOnly: false })),
  ]
}

/** The lines that are too wide, but a regular expression or an address that fills its line, which cannot be broken. */
function wideLines(path: string, text: string): string[] {
  return text.split('\n').flatMap((line, index) => {
    const isUnbreakable = /^\s*\/[^/*].*\/[a-z]*,?$/.test(line) || /^[\s/*]*https?:\/\/\S+$/.test(line)
    return line.length <= MAX_COLUMNS || isUnbreakable ? [] : [`${path}:${index + 1} has ${line.length} columns`]
  })
}

function exportedTypes(text: string): string[] {
  return [...text.matchAll(/^export (?:interface|type|class) (\w+)/gm)].map(([, name = '']) => name)
}

function commentWords(text: string): string[] {
  return [...text.matchAll(/\/\*[^]*?\*\/|(?:^|\s)\/\/[^\n]*/g)].flatMap(
    ([comment]) => comment.toLowerCase().match(/[a-z']+/g) ?? [],
  )
}

function onlyTypes(names: string): boolean {
  const inner = /^\{([^}]*)\}$/.exec(names)?.[1]
  const list = inner?.split(',').filter((name) => name.trim()) ?? []
  return list.length > 0 && list.every((name) => /^\s*type\s/.test(name))
}

function partOf(path: string): string {
  return path.split('/')[0]?.replace(/\.ts$/, '') ?? ''
}

function isTest(path: string): boolean {
  return path.endsWith('.test.ts')
}

function readsEnvironment(text: string): boolean {
  return /\bprocess\.env\b|\{[^}]*\benv\b[^}]*\}\s*from 'node:process'/.test(text)
}

function none(offences: string[]): void {
  assert.ok(offences.length === 0, `\n${offences.join('\n')}`)
}
