import type { Command, HelpConfiguration } from 'commander'

/** How help looks: each command with what it inherits, and lists of commands without what all of them have. */
export const HELP: HelpConfiguration = {
  showGlobalOptions: true,
  subcommandTerm: (command) =>
    [
      command.name(),
      ...command.registeredArguments.map((each) =>
        each.required ? `<${each.name()}>` : `[${each.name()}${each.variadic ? '...' : ''}]`,
      ),
    ].join(' '),
}

/** Makes a command part of the program: it behaves as that does, its help shows what it inherits, and wrong usage is told the right form. */
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

/** What commander says of wrong usage, as one line. */
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
