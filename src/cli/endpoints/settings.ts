import { type Command, Option } from 'commander'
import { assignment, computeSize, type SizeLimits, suspendTimeout } from '../values.ts'

/** The settings of an endpoint that can be set at its creation and later. */
export interface SettingFlags {
  readonly name?: string
  readonly cu?: SizeLimits
  readonly suspendTimeout?: number
  readonly pgSetting?: Record<string, string>
  readonly disable?: boolean
  readonly passwordless?: boolean
}

/** Adds the options for the settings of an endpoint to a command. */
export function sets(command: Command): Command {
  return command
    .option('--name <name>', 'a name for it')
    .addOption(new Option('--cu <size>', 'compute size: 0.5, or 1-4 to scale between').argParser(computeSize))
    .addOption(
      new Option('--suspend-timeout <seconds>', 'idle seconds until it sleeps, never, or default').argParser(
        suspendTimeout,
      ),
    )
    .addOption(
      new Option(
        '--pg-setting <name=value>',
        'a setting of its Postgres, several if repeated; name= takes one back',
      ).argParser(assignment),
    )
    .option('--disable', 'suspend it and refuse connections')
    .option('--passwordless', 'let clients without a password wait for approval (options=passwordless)')
    .option('--no-passwordless', 'let clients in by their password only')
}

/** The flags as fields of the API. */
export function settings({ name, cu, pgSetting, passwordless, ...flags }: SettingFlags) {
  return {
    name,
    ...cu,
    suspend_timeout_seconds: flags.suspendTimeout,
    passwordless_access: passwordless,
    settings: pgSetting && { pg_settings: pgSetting },
  }
}
