import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import * as options from '../cli/options.ts'
import { usageOf } from '../cli/usage.ts'
import { COMMANDS } from './commands.ts'

test('the list of commands says of each what its own module says', async () => {
  const listed = Object.values(COMMANDS).flat()
  const loaded = await Promise.all(listed.map(({ load }) => load(options, {})))
  deepEqual(
    listed.map(({ usage, about, alias }) => ({ usage, about, alias })),
    loaded.map((command) => ({
      usage: usageOf(command),
      about: command.summary() || command.description(),
      alias: command.alias(),
    })),
  )
})
