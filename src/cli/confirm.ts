import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { UsageError } from '../errors.ts'

/** Adds the flag that skips the confirmation of a destructive command. */
export function asks(command: Command): Command {
  return command.option('-y, --yes', 'do not ask')
}

/** Asks before a destructive change, if standard input is a terminal. Errors: UsageError (the answer is no). */
export async function confirm(question: string, { yes }: { readonly yes?: boolean }): Promise<void> {
  if (yes || !process.stdin.isTTY) return
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  // Ctrl-C and Ctrl-D mean no.
  const answer = await terminal.question(`${question} [y/N] `).catch(() => '')
  terminal.close()
  if (!/^y(es)?$/i.test(answer.trim())) throw new UsageError('Nothing was changed.')
}
