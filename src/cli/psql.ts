import { Command, type Option } from 'commander'
import { loadConfig, type Overrides } from '../config.ts'
import { UsageError } from '../errors.ts'
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
    .action(async (first: string | undefined, others: string[], flags: PsqlFlags) => {
      const { command: commands = [] } = flags
      const isOption = first?.startsWith('-') === true
      const asked = isOption ? undefined : first
      const psqlArguments = psqlArgumentsOf(isOption ? [first, ...others] : others, commands)
      // Loaded here: the driver and TLS take longer to load than most commands take to run.
      const { placeOf, trusted, uriOf } = await import('./psql_place.ts')
      const uri = asked?.includes('://') ? asked : await uriOf(asked, flags)
      if (psqlArguments) {
        const { runPsql } = await import('./psql_program.ts')
        return runPsql(psqlArguments, await placeOf(uri, flags))
      }
      const { runPrompt } = await import('./psql_prompt.ts')
      await runPrompt({ ...(await placeOf(uri, flags)), ...trusted(loadConfig(flags)) }, commands)
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

export interface PsqlFlags extends Overrides {
  readonly command?: string[]
  readonly project?: string
  readonly database?: string
}
