import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { UsageError } from '../errors.ts'

/** Gives a command that destroys the flag that spares its question. */
export function asks(command: Command): Command {
  return command.option('-y, --yes', 'do not ask')
}

/** Asks a person before something is destroyed; asks nobody where standard input is no terminal. Errors: UsageError for a no. */
export async function confirm(question: string, { yes }: { readonly yes?: boolean }): Promise<void> {
  if (yes || !process.stdin.isTTY) return
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  // Ctrl-C and Ctrl-D are a no.
  const answer = await terminal.question(`${question} [y/N] `).catch(() => '')
  terminal.close()
  if (!/^y(es)?$/i.test(answer.trim())) throw new UsageError('Nothing was changed.')
}
