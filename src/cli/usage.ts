import type { Command, HelpConfiguration } from 'commander'

/** The format of help: each command with the options it inherits, and lists of commands without `[options]`. */
export const HELP: HelpConfiguration = {
  showGlobalOptions: true,
  subcommandTerm: usageOf,
}

/** A command with its arguments: `psql [branch] [args...]`. */
export function usageOf(command: Command): string {
  const args = command.registeredArguments.map((each) =>
    each.required ? `<${each.name()}>` : `[${each.name()}${each.variadic ? '...' : ''}]`,
  )
  return [command.name(), ...args].join(' ')
}

/**
 * Adds a command to the program: it inherits the program's settings, its help shows inherited options, and errors of
 * usage show the right form.
 */
export function adopt(program: Command, command: Command): void {
  program.addCommand(command)
  settle(program, command)
}

function settle(program: Command, command: Command): void {
  command
    .copyInheritedSettings(program)
    .configureHelp(HELP)
    .configureOutput({ outputError: (text, write) => write(`neap: ${oneLine(text)} (${hint(command)})\n`) })
  if (command.commands.length > 0) command.helpCommand(false)
  for (const each of command.commands) settle(program, each)
}

/** An error of usage from commander, as one line. */
export const oneLine = (text: string): string =>
  text
    .replace(/^error: /, '')
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ')

function hint(command: Command): string {
  const usage = command.createHelp().commandUsage(command)
  return command.commands.length > 0
    ? `${usage.replace(/ \[.*/, '')} --help shows what there is`
    : `usage: ${usage.replace(' [options]', '')} [options]`
}
