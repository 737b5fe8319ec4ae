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
import { runPsql } from './psql_program.ts'
import { branchId, findDatabase, projectId } from './resolve.ts'
import { table } from './table.ts'
import { PROJECT } from './verb.ts'

/** `neap psql`: a plain SQL prompt for machines without psql, or psql itself when the command has options of psql. */
export function psqlCommand(dataDir: Option): Command {
  return new Command('psql')
    .summary('A plain SQL prompt, for machines without psql; or psql with its arguments.')
    .description(
      'A plain SQL prompt, for machines without psql. Statements end with a semicolon; \\q leaves.\n' +
        'With other options than these, or with any behind --, psql is run with them: neap psql pr-17 -- -At -f x.sql',
    )
    .argument('[branch]', 'its id or name, or a connection URI; that of the first project unless given')
    .argument('[args...]', 'options of psql')
    .option(
      '-c, --command <sql>',
      'run this and leave; may be repeated',
      (sql: string, others: string[] | undefined) => [...(others ?? []), sql],
    )
    .addOption(PROJECT)
    .option('-d, --database <name>', 'may be left out where there is only one')
    .addOption(dataDir)
    .allowUnknownOption()
    .action(async (first: string | undefined, others: string[], flags: Flags) => {
      const { command: commands = [] } = flags
      const isOption = first?.startsWith('-') === true
      const asked = isOption ? undefined : first
      const psqlArguments = psqlArgumentsOf(isOption ? [first, ...others] : others, commands)
      const uri = asked?.includes('://') ? asked : await uriOf(asked, flags)
      if (psqlArguments) return runPsql(psqlArguments, await placeOf(uri, flags))
      const client = await connect(uri, flags)
      try {
        for (const sql of commands) await run(client, sql)
        if (commands.length === 0) await converse(client)
      } finally {
        await client.end()
      }
    })
}

/**
 * The arguments of psql; undefined for the plain prompt. Errors: UsageError (the order of commands and files would be
 * lost, or the first argument is no option).
 */
function psqlArgumentsOf(given: readonly string[], commands: readonly string[]): string[] | undefined {
  if (given.length === 0) return undefined
  if (given[0]?.startsWith('-') !== true)
    throw new UsageError(`${given[0]} is no option: give one branch, and what is for psql behind --`)
  const isFile = (each: string) => /^(-[^-]*f|--file(=|$))/.test(each)
  if (commands.length > 0 && given.some(isFile))
    throw new UsageError('Put -c and -f behind --, which keeps their order: neap psql -- -c <sql> -f <file>')
  return [...given, ...commands.flatMap((sql) => ['-c', sql])]
}

interface Flags extends Overrides {
  readonly command?: string[]
  readonly project?: string
  readonly database?: string
}

/** Fetched here: a URI in the arguments shows its password to every local user for as long as the prompt is open. */
async function uriOf(branch: string | undefined, flags: Flags): Promise<string> {
  const call = localClient(flags)
  // Report first when no Neap runs there.
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

/** The server of a URI, by the name in its certificate; on this machine when it does not resolve that name. */
async function placeOf(uri: string, flags: Overrides) {
  const config = loadConfig(flags)
  const url = parse(uri)
  const name = nameIn(url, config)
  return {
    name,
    isHere: name.endsWith(`.${config.domain}`) && !(await resolves(name)),
    port: Number(url.port || 5432),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    options: url.searchParams.get('options') ?? undefined,
    authority: config.tlsCert === undefined ? join(config.dataDir, 'tls', 'ca.crt') : undefined,
  }
}

/** Connects and verifies the server; reaches endpoint names even when this machine does not resolve them. */
async function connect(uri: string, flags: Overrides): Promise<pg.Client> {
  const config = loadConfig(flags)
  const { name, isHere, port, user, password, database, options } = await placeOf(uri, flags)
  const client = new pg.Client({
    host: isHere ? '127.0.0.1' : name,
    port,
    user,
    password,
    database,
    options,
    application_name: 'neap psql',
    ssl: {
      ...trusted(config),
      // The proxy identifies the endpoint by this name, at any address.
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

/**
 * The name of the server in its certificate. When endpoint names do not resolve, the URI names localhost, which a
 * certificate of the operator's does not cover.
 */
function nameIn(url: URL, { tlsCert, region, domain }: Config): string {
  const [, endpoint] = /^endpoint=(.+)$/.exec(url.searchParams.get('options') ?? '') ?? []
  if (tlsCert === undefined || endpoint === undefined) return url.hostname
  return endpoint.includes('.') ? endpoint : `${endpoint}.${region}.${domain}`
}

/** Neap's own authority; or the operator's certificate and all authorities that this machine trusts. */
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

/** At a terminal, prompts, and mistakes do not change the exit code. From a pipe, fails if a statement fails. */
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
