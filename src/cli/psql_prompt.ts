import { isIP } from 'node:net'
import { createInterface } from 'node:readline/promises'
import pg from 'pg'
import { messageOf, UsageError } from '../errors.ts'
import { table } from './table.ts'

/** A server, the login there, and the certificates that it is verified by. */
interface PromptPlace {
  readonly name: string
  /** The server is on this machine, which does not resolve its name. */
  readonly isHere: boolean
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
  readonly options: string | undefined
  readonly ca: string | string[]
  readonly allowPartialTrustChain?: boolean
}

/**
 * Runs commands, or those of a prompt where none are given. Sets the exit code where one fails.
 * Errors: UsageError (the server cannot be reached).
 */
export async function runPrompt(place: PromptPlace, commands: readonly string[]): Promise<void> {
  const client = await connect(place)
  try {
    for (const sql of commands) await run(client, sql)
    if (commands.length === 0) await converse(client)
  } finally {
    await client.end()
  }
}

/** Connects and verifies the server; reaches endpoint names even when this machine does not resolve them. */
async function connect(place: PromptPlace): Promise<pg.Client> {
  const { name, isHere, port, user, password, database, options, ca, allowPartialTrustChain } = place
  const client = new pg.Client({
    host: isHere ? '127.0.0.1' : name,
    port,
    user,
    password,
    database,
    options,
    application_name: 'neap psql',
    ssl: {
      ca,
      ...(allowPartialTrustChain !== undefined && { allowPartialTrustChain }),
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
