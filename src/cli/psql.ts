import { readFileSync } from 'node:fs'
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { getCACertificates } from 'node:tls'
import { Command, type Option } from 'commander'
import pg from 'pg'
import { type Config, loadConfig, type Overrides } from '../config.ts'
import { messageOf, UsageError } from '../errors.ts'
import { readState } from '../supervisor/data_dir.ts'
import { findProject } from '../supervisor/first_project.ts'
import { localClient } from './connect.ts'
import { branchId, findDatabase, projectId } from './resolve.ts'
import { table } from './table.ts'
import { PROJECT } from './verb.ts'

/** `neap psql`: a plain SQL prompt for machines without psql. */
export function psqlCommand(dataDir: Option): Command {
  return new Command('psql')
    .summary('A plain SQL prompt, for machines without psql.')
    .description('A plain SQL prompt, for machines without psql. Statements end with a semicolon; \\q leaves.')
    .argument('[branch]', 'its id or name, or a connection URI; that of the first project unless given')
    .option('-c, --command <sql>', 'run this and leave')
    .addOption(PROJECT)
    .option('-d, --database <name>', 'may be left out where there is only one')
    .addOption(dataDir)
    .action(async (asked: string | undefined, flags: Flags) => {
      const client = await connect(asked?.includes('://') ? asked : await uriOf(asked, flags), flags)
      try {
        if (flags.command !== undefined) await run(client, flags.command)
        else await converse(client)
      } finally {
        await client.end()
      }
    })
}

interface Flags extends Overrides {
  readonly command?: string
  readonly project?: string
  readonly database?: string
}

/** Asked for here: a URI in the arguments shows its password to every local user for as long as the prompt is open. */
async function uriOf(branch: string | undefined, flags: Flags): Promise<string> {
  const call = localClient(flags)
  // Whether a Neap runs there is what to tell first.
  await call('GET /status', {})
  const first = flags.project === undefined ? readState(loadConfig(flags).dataDir).projectId : undefined
  if (branch === undefined && flags.project === undefined && flags.database === undefined) {
    const { connection_uri } = first ? await findProject(call, first) : { connection_uri: null }
    if (connection_uri) return connection_uri
    throw new UsageError('There is no first project to connect to: name another with --project <id or name>.')
  }
  const project_id = first ?? (await projectId(call, flags.project, 'Say which project with --project <id or name>'))
  const params = { project_id, branch_id: await branchId(call, project_id, branch) }
  const { name, owner_name } = await findDatabase(call, params, flags.database)
  const query = { branch_id: params.branch_id, database_name: name, role_name: owner_name }
  return (await call('GET /projects/:project_id/connection_uri', { params, query })).uri
}

/** Verifies the server, and reaches endpoint names where this machine does not resolve them. */
async function connect(uri: string, flags: Overrides): Promise<pg.Client> {
  const config = loadConfig(flags)
  const url = parse(uri)
  const name = nameIn(url, config)
  const client = new pg.Client({
    host: (await resolves(name)) || !name.endsWith(`.${config.domain}`) ? name : '127.0.0.1',
    port: Number(url.port || 5432),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    options: url.searchParams.get('options') ?? undefined,
    application_name: 'neap psql',
    ssl: {
      ...trusted(config),
      // By this name the proxy knows the endpoint, wherever it is connected to.
      ...(isIP(name) === 0 && { servername: name }),
    },
  })
  client.on('error', () => {})
  client.on('notice', (notice) => process.stderr.write(`${notice.severity}:  ${notice.message}\n`))
  await client.connect().catch((error: unknown) => {
    throw new UsageError(`Cannot connect: ${messageOf(error)}`)
  })
  return client
}

/** A certificate of the operator's is not made out to localhost, which is what the URI says where names of endpoints do not resolve. */
function nameIn(url: URL, { tlsCert, region, domain }: Config): string {
  const [, endpoint] = /^endpoint=(.+)$/.exec(url.searchParams.get('options') ?? '') ?? []
  if (tlsCert === undefined || endpoint === undefined) return url.hostname
  return endpoint.includes('.') ? endpoint : `${endpoint}.${region}.${domain}`
}

/** Neap's own authority; or the certificate that the operator has set, and all that this machine trusts. */
function trusted({ dataDir, tlsCert }: Config) {
  if (tlsCert === undefined) return { ca: readFileSync(join(dataDir, 'tls', 'ca.crt'), 'utf8') }
  return { ca: [...getCACertificates('default'), readFileSync(tlsCert, 'utf8')], allowPartialTrustChain: true }
}

const resolves = (name: string): Promise<boolean> =>
  lookup(name).then(
    () => true,
    () => false,
  )

function parse(uri: string): URL {
  try {
    return new URL(uri)
  } catch (error) {
    throw new UsageError(
      'That is not a connection URI; one looks like postgresql://user:password@host:port/database?sslmode=require',
      { cause: error },
    )
  }
}

async function run(client: pg.Client, sql: string): Promise<void> {
  try {
    const results = await client.query<string[]>({
      text: sql,
      rowMode: 'array',
      types: { getTypeParser: () => String },
    })
    for (const result of [results].flat()) process.stdout.write(show(result))
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error
    process.stderr.write(`ERROR:  ${error.message}\n${error.hint ? `HINT:  ${error.hint}\n` : ''}`)
    process.exitCode = 1
  }
}

function show(result: pg.QueryArrayResult<(string | null)[]>): string {
  if (result.fields.length === 0)
    return `${result.command ?? ''}${result.rowCount === null ? '' : ` ${result.rowCount}`}\n`
  const rows = result.rows.map((row) => row.map((cell) => cell ?? ''))
  return `${table(
    result.fields.map((field) => field.name),
    rows,
  )}\n(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})\n`
}

/** A person is prompted, and ends well whatever was mistyped; what comes through a pipe is only run, and fails if any of it does. */
async function converse(client: pg.Client): Promise<void> {
  const { isTTY } = process.stdin
  const terminal = createInterface({ input: process.stdin, ...(isTTY && { output: process.stdout }) })
  const prompt = (text: string): void => {
    if (!isTTY) return
    terminal.setPrompt(text)
    terminal.prompt()
  }
  let statement = ''
  prompt(`${client.database}=> `)
  for await (const line of terminal) {
    if (statement === '' && ['\\q', 'exit', 'quit'].includes(line.trim())) break
    statement += `${line}\n`
    if (/;\s*$/.test(statement)) {
      await run(client, statement)
      if (isTTY) process.exitCode = 0
      statement = ''
    }
    prompt(statement.trim() === '' ? `${client.database}=> ` : `${client.database}-> `)
  }
  if (!isTTY && statement.trim() !== '') await run(client, statement)
  terminal.close()
}
