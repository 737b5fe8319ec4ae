import { CommanderError } from 'commander'
import { programOf } from './cli/program.ts'
import { AppError, messageOf, UsageError } from './errors.ts'
import { COMMANDS } from './parts/commands.ts'

try {
  const words = process.argv.slice(2)
  await (await programOf(COMMANDS, words, process.env)).parseAsync(words, { from: 'user' })
} catch (error) {
  if (error instanceof UsageError || error instanceof AppError) process.stderr.write(`neap: ${error.message}\n`)
  else if (!(error instanceof CommanderError)) {
    process.stderr.write(`neap: ${messageOf(error)}\n`)
    if (process.env['NEAP_LOG_LEVEL'] === 'debug') console.error(error)
  }
  // A part that failed to start may have open listeners and connections, which would delay its exit by seconds.
  process.exit(error instanceof CommanderError && error.exitCode === 0 ? 0 : 1)
}
