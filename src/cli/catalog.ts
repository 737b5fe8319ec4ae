import { Command, type Option } from 'commander'
import { loadConfig, type Overrides } from '../config.ts'
import { adoptDataDir, findUnknownStores, type UnknownStore } from '../supervisor/unknown_stores.ts'
import { asks, confirm } from './confirm.ts'
import { print } from './print.ts'
import { type Columns, list, moment } from './table.ts'

interface Flags extends Overrides {
  readonly json?: boolean
  readonly yes?: boolean
}

/** `neap catalog`: what an operator decides after the catalog was restored from a backup. */
export function catalogCommand(dataDir: Option): Command {
  const command = new Command('catalog')
    .summary('See what a restored catalog does not know; take a data directory over.')
    .description('After a restore of the catalog from a backup: see what it does not know, take a data directory over.')
    .addOption(dataDir)
  command
    .command('unknown')
    .summary('List the stores in the data directory that the catalog does not know.')
    .description(
      'List the stores in the data directory that the catalog does not know, as after a restore from a backup ' +
        'that is older than they are. Neap never removes them by itself.',
    )
    .option('--json', 'print JSON')
    .action(async (_flags: object, self: Command) => {
      const flags = self.optsWithGlobals<Flags>()
      const stores = await findUnknownStores(loadConfig(flags))
      print(flags.json ? JSON.stringify({ stores }) : list(stores, COLUMNS, 'The catalog knows all stores.'))
    })
  asks(command.command('adopt'))
    .summary('Make the data directory belong to the catalog that Neap is started with.')
    .description(
      'Make the data directory belong to the catalog that Neap is started with next, ' +
        'as where that replaces one that is lost. Stores that it does not know are left alone.',
    )
    .action(async (flags: Flags, self: Command) => {
      await confirm('Stores of this data directory that the catalog does not know serve no clients. Adopt it?', flags)
      await adoptDataDir(loadConfig(self.optsWithGlobals<Flags>()))
      print("The next start of Neap takes the data directory over: npx neap up, or restart this host's worker.")
    })
  return command
}

const COLUMNS: Columns<UnknownStore> = {
  STORE: ({ id }) => id,
  CHANGED: ({ changed_at }) => moment(changed_at),
  DIRECTORY: ({ directory }) => directory,
}
