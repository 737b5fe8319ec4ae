import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'
import { without } from '../clients.ts'
import { peer, withoutPeers } from '../clients/peers.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, suspend } from '../project.ts'
import { copied, expectAccessible, signedIn, startBrowser, type Visitor, withoutBrowser } from './browser.ts'

/* The lines that the console gives to each client are pasted as they are copied, into files and a shell. */

const run = promisify(execFile)
const skip = withoutBrowser
let neap: Neap
let browser: Browser
let visit: Visitor
let branchId: string
const project = () => ({ project_id: neap.ready.project_id ?? '' })
const folders: string[] = []

/** Names that end strings, open shells' substitutions and comments. */
const HOSTILE = { role: `o'n"$(touch pwned)`, database: "da`ta';--\\" }

before(async () => {
  if (skip) return
  neap = await startNeap()
  browser = await startBrowser()
  visit = await signedIn(browser, neap)
  const place = await firstPlace(neap)
  branchId = place.branch_id
  const params = { ...project(), branch_id: branchId }
  const role = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', {
    params,
    body: { role: { name: HOSTILE.role } },
  })
  await neap.ended(role.operations)
  const database = await neap.call('POST /projects/:project_id/branches/:branch_id/databases', {
    params,
    body: { database: { name: HOSTILE.database, owner_name: HOSTILE.role } },
  })
  await neap.ended(database.operations)
  await suspend(neap, place)
})

after(async () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  await browser?.close()
  await neap?.stop()
})

const PYTHON = 'python/bin/python'
const JAR = 'java/postgresql-42.7.8.jar'
/** Drivers that do not decode the database's name in a connection string as libpq does: theirs is a plain one. */
const DECODES_NO_DATABASE = new Set(['env', 'node-pg', 'node-postgres', 'drizzle', 'prisma'])
const node = fileURLToPath(new URL('../../node_modules', import.meta.url))

interface Tool {
  readonly skip?: string | false
  /** Prepares the folder as the client's installation would. */
  readonly install?: (folder: string) => void
  readonly env?: Record<string, string>
}

const linked = (modules: string) => (folder: string) => {
  symlinkSync(modules, join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
}

const TOOLS: Readonly<Record<string, Tool>> = {
  psql: { skip: without('psql'), env: { PSQLRC: '/dev/null' } },
  uri: { skip: without('psql') },
  env: { install: linked(node) },
  'node-pg': { install: linked(node) },
  'node-postgres': { install: linked(node) },
  serverless: { install: linked(node) },
  python: { skip: withoutPeers(PYTHON) },
  django: { skip: withoutPeers(PYTHON) },
  go: {
    skip: withoutPeers('bin/pgx_client') || without('go'),
    install: (folder) => {
      for (const file of ['go.mod', 'go.sum'])
        copyFileSync(new URL(`../clients/drivers/${file}`, import.meta.url), join(folder, file))
    },
  },
  java: {
    skip: withoutPeers(JAR) || without('java'),
    install: (folder) => copyFileSync(peer(JAR), join(folder, 'postgresql-42.7.8.jar')),
  },
  drizzle: { skip: withoutPeers('npm/node_modules/drizzle-orm'), install: linked(peer('npm/node_modules')) },
  prisma: {
    skip: withoutPeers('npm/node_modules/prisma'),
    install: linked(peer('npm/node_modules')),
    // It is fetched by HTTP from no registry, and generating a client does not run it.
    env: { PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true' },
  },
}

const PATH = [
  dirname(process.execPath),
  join(node, '.bin'),
  peer('npm/node_modules/.bin'),
  dirname(peer(PYTHON)),
  process.env['PATH'],
].join(delimiter)
const INSTALLS = /^(npm|pip|mvn|go mod) /

/** Pastes each part where it belongs. Returns what the shell printed. */
async function paste(id: string, parts: readonly (readonly [where: string, text: string])[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), `neap-snippet-${id}-`))
  folders.push(folder)
  const { install, env } = TOOLS[id] ?? {}
  install?.(folder)
  let printed = ''
  for (const [where, text] of parts) {
    if (where === 'Shell' && INSTALLS.test(text)) continue
    if (where === 'Shell') {
      const options = { cwd: folder, env: { ...process.env, ...env, PATH, PGCONNECT_TIMEOUT: '20' } }
      const child = run('bash', ['-c', text], options)
      // A program that reads no input may have ended by then.
      child.child.stdin?.on('error', () => {}).end('select version();\n')
      printed += (await child).stdout
    } else {
      mkdirSync(dirname(join(folder, where)), { recursive: true })
      writeFileSync(join(folder, where), text)
    }
  }
  assert.throws(() => readFileSync(join(folder, 'pwned')), 'a name was run as a command')
  return printed
}

/** The parts that the page gives for a client, as they are copied. */
async function partsOf(id: string, options: Record<string, string>): Promise<[string, string][]> {
  const { page, origin } = visit
  const search = new URLSearchParams({ client: id, ...options })
  await page.goto(`${origin}/projects/${project().project_id}/branches/${branchId}/connect?${search}`)
  const blocks = page.locator('figure.snippet')
  await page.locator('.pills input:checked').waitFor({ state: 'attached' })
  await page.getByText('First save the certificate authority').click()
  const parts: [string, string][] = []
  for (const block of await blocks.all()) {
    const where = (await block.locator('figcaption > span').textContent()) ?? ''
    const button = block.getByRole('button')
    assert.doesNotMatch((await block.textContent()) ?? '', /npg_\w/, 'the password is shown only when asked')
    parts.push([where, await copied(page, (await button.getAttribute('title')) ?? '')])
  }
  // Two of them hold no command of their own.
  if (id === 'uri') return [...parts.slice(0, -1), ['Shell', `psql '${parts.at(-1)?.[1]}'`]]
  if (id === 'env') return [...parts, ['main.mjs', PRINTS], ['Shell', 'node --env-file=.env main.mjs']]
  return parts
}

const PRINTS = `import pg from 'pg'
const client = new pg.Client(process.env.DATABASE_URL)
await client.connect()
console.log((await client.query('select version()')).rows[0].version)
await client.end()`

for (const [id, tool] of Object.entries(TOOLS))
  for (const [how, options] of [
    ['pooled', {}],
    ['direct, with hostile names', { ...HOSTILE, pooled: 'no' }],
  ] as const)
    test(`${id}, ${how}: runs as pasted`, { skip: skip || (tool.skip ?? false) }, async () => {
      const { database: _, ...withoutDatabase } = { database: '', ...options }
      const chosen = DECODES_NO_DATABASE.has(id) ? withoutDatabase : options
      assert.match(await paste(id, await partsOf(id, chosen)), /PostgreSQL \d+/)
    })

test('the page knows no client that is not run here', { skip }, async () => {
  const { page } = visit
  assert.equal(await page.locator('.pills input').count(), Object.keys(TOOLS).length)
})

test('the authority is downloaded as a file', { skip }, async () => {
  const { page } = visit
  await page.reload()
  await page.getByText('First save the certificate authority').click()
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download neap-ca.crt' }).click(),
  ])
  assert.equal(download.suggestedFilename(), 'neap-ca.crt')
  assert.equal(readFileSync(await download.path(), 'utf8'), readFileSync(neap.ready.ca_file ?? '', 'utf8'))
})

test('the choice is in the address, and the page is accessible and fits a narrow window', { skip }, async () => {
  const { page } = visit
  await page.getByText('Python: psycopg').click()
  await page.getByLabel('Verify the server').uncheck()
  await page.getByText('First save').waitFor({ state: 'detached' })
  assert.match(page.url(), /client=python/)
  await page.setViewportSize({ width: 360, height: 740 })
  await page.reload()
  await page.getByText('neap.py', { exact: true }).waitFor()
  await expectAccessible(page)
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
  assert.deepEqual(visit.problems(), [])
})
