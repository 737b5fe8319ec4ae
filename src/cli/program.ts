import { Command } from 'commander'
import type * as Options from './options.ts'
import { adopt, HELP, oneLine } from './usage.ts'

/** A command of the program, as the list of commands shows it. */
export interface ListedCommand {
  /** With its arguments: `psql [branch] [args...]`. */
  readonly usage: string
  /** As its own module says it. */
  readonly about: string
  readonly alias?: string
  /** Its module is loaded only to run it or to show its help. */
  readonly load: (options: typeof Options, env: NodeJS.ProcessEnv) => Promise<Command>
}

/** The commands by the headings under which they are listed. */
export type CommandTable = Readonly<Record<string, readonly ListedCommand[]>>

/** The program with all commands of a table, of which only the one that these words name is loaded. */
export async function programOf(
  table: CommandTable,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<Command> {
  const program = new Command('neap')
    .description('Serverless Postgres for your own machines.')
    .configureOutput({
      outputError: (text, write) => write(`neap: ${oneLine(text)} (npx neap --help shows what there is)\n`),
    })
    .configureHelp(HELP)
    .helpCommand('help [command]', 'Show the help of a command.')
    .exitOverride()
  const name = words[0] === 'help' ? words[1] : words[0]
  for (const [heading, commands] of Object.entries(table)) {
    program.commandsGroup(heading)
    for (const { usage, about, alias, load } of commands) {
      if (name !== undefined && [usage.split(' ')[0], alias].includes(name))
        adopt(program, await load(await import('./options.ts'), env))
      else program.command(usage).description(about)
    }
  }
  return program
}
