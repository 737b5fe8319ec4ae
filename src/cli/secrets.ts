import { Command, type Option } from 'commander'
import { loadConfig, type Overrides } from '../config.ts'
import type { SecretAge, SecretsReport } from '../rotation/report.ts'
import type { RotationStep } from '../rotation/rotate.ts'
import { asks, confirm } from './confirm.ts'
import { print } from './print.ts'
import { type Columns, duration, list, moment } from './table.ts'

interface Flags extends Overrides {
  readonly json?: boolean
  readonly yes?: boolean
}

/**
 * `neap secrets`: shows the age of the keys of this machine's Neap, and replaces them. The code is loaded when needed,
 * since certificates take longer to load than most commands take to run.
 */
export function secretsCommand(dataDir: Option): Command {
  const command = new Command('secrets')
    .description('Show how old the secrets of this Neap are; rotate them while it runs.')
    .addOption(dataDir)
    .option('--json', 'print JSON')
    .action(async (flags: Flags) => {
      const { reportSecrets } = await import('../rotation/report.ts')
      const report = await reportSecrets(loadConfig(flags))
      print(flags.json ? JSON.stringify(report) : shown(report))
    })
  command
    .command('rotate')
    .summary('Give all secrets new values while Neap runs.')
    .description(
      'Make a new master key and move all that rests on it: ' +
        'encrypted passwords, passwords of computes and of the catalog at once, API keys with their next use. ' +
        'It also makes the next certificate authority. If it is interrupted, run it again.',
    )
    .action(async (_flags: object, self: Command) => {
      const { rotate } = await import('../rotation/rotate.ts')
      await rotate({ config: loadConfig(self.optsWithGlobals<Flags>()), onStep: (step) => print(SAID[step]) })
    })
  command
    .command('rotate-authority')
    .summary('Sign with the next certificate authority.')
    .description(
      'Have the proxy show a certificate of the next certificate authority, ' +
        'which the last rotation added to ca.crt. Clients that verify need that file by then.',
    )
    .action(async (_flags: object, self: Command) => {
      const { rotateAuthority } = await import('../rotation/authority.ts')
      await rotateAuthority(loadConfig(self.optsWithGlobals<Flags>()))
      print('The proxy shows a certificate of the new authority; ca.crt holds only that one now.')
    })
  asks(command.command('replace-lost-key'))
    .summary('Make a new master key where the old one is lost.')
    .description(
      'Make a new master key where the old one is lost. Data, roles and their passwords stay. ' +
        'API keys and webhook secrets are void, and passwords can be shown again only after a reset.',
    )
    .action(async (flags: Flags, self: Command) => {
      await confirm('API keys and webhook secrets become void. Is the old key lost for good?', flags)
      const { replaceLostKey } = await import('../supervisor/lost_key.ts')
      await replaceLostKey(loadConfig(self.optsWithGlobals<Flags>()))
      print('There is a new master key. Start Neap: it prints a new API key.')
    })
  return command
}

const SAID: Record<RotationStep, string> = {
  made: 'Every part has the next master key.',
  current: 'It is the current one.',
  sealed: 'Passwords, webhook secrets and kept replies are encrypted under it.',
  stores: 'Computes that run have new passwords for the roles of Neap itself; others get them at their next start.',
  catalog: 'The roles of Neap itself have new passwords in the catalog.',
  authority:
    'The next certificate authority is in ca.crt. When clients have that file: npx neap secrets rotate-authority',
  retired: 'The old master key is destroyed. Back up the new one.',
}

const COLUMNS: Columns<SecretAge> = {
  SECRET: ({ name }) => name,
  STATE: ({ state }) => state,
  MADE: ({ made_at }) => moment(made_at),
  AGE: ({ made_at }) => duration(Date.now() - Date.parse(made_at)),
  ENDS: ({ ends_at }) => moment(ends_at),
}

function shown({ keys, encrypted, ...report }: SecretsReport): string {
  const branches = report.branches_under_earlier_key.length
  const lines = [
    list(keys, COLUMNS, 'No keys.'),
    `${encrypted.current} texts in the catalog are encrypted under the current key, ` +
      `${encrypted.earlier} under an earlier one.`,
  ]
  if (encrypted.unreadable > 0)
    lines.push(`${encrypted.unreadable} are under a key that is lost: reset those passwords and secrets.`)
  if (report.api_keys_under_earlier_key > 0)
    lines.push(`${report.api_keys_under_earlier_key} API keys are hashed under an earlier key until their next use.`)
  if (branches > 0) lines.push(`${branches} branches get passwords of the current key at their next start.`)
  return lines.join('\n')
}
