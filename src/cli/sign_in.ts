import { Command, type Option } from 'commander'
import type { Overrides } from '../config.ts'
import { localClient } from './connect.ts'
import { print } from './print.ts'

/** `neap sign-in`: a link that opens the console. */
export function signInCommand(dataDir: Option): Command {
  return new Command('sign-in')
    .description('Print a link that signs you in at the console, once, within an hour.')
    .addOption(dataDir)
    .option('--email <email>', 'sign in the person with this email instead of the operator')
    .option('--json', 'print JSON')
    .action(async ({ json, email, ...flags }: Overrides & { json?: boolean; email?: string }) => {
      const link = await localClient(flags)('POST /sign_in_links', { query: { email } })
      print(json ? JSON.stringify(link) : link.url)
    })
}
