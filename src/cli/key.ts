import { Command, Option } from 'commander'
import type { Overrides } from '../config.ts'
import { UsageError } from '../errors.ts'
import { localClient } from './connect.ts'
import { table } from './table.ts'

type Flags = Overrides & { readonly json?: boolean }

/** `neap key create|list|revoke`: the API keys of the Neap on this machine. */
export function keyCommand(dataDir: Option): Command {
  const key = new Command('key').description('Create, list and revoke API keys.')
  key
    .command('create')
    .description('Create an API key. It is shown this once: only its hash is kept.')
    .argument('[name]', 'what it is for', 'cli')
    .addOption(new Option('--scope <scope>', 'what it may do').choices(['read', 'write', 'admin']).default('admin'))
    .addOption(dataDir)
    .option('--json', 'print JSON')
    .action(async (name: string, flags: Flags & { scope: 'read' | 'write' | 'admin' }) => {
      const made = await localClient(flags)('POST /api_keys', { body: { key_name: name, scope: flags.scope } })
      process.stdout.write(flags.json ? `${JSON.stringify(made)}\n` : `${made.key}\n`)
    })
  key
    .command('list')
    .description('List the API keys that are in force.')
    .addOption(dataDir)
    .option('--json', 'print JSON')
    .action(async (flags: Flags) => {
      const keys = await localClient(flags)('GET /api_keys', {})
      const rows = keys.map(({ id, name, scope, created_at, last_used_at }) => [
        String(id),
        name,
        scope,
        created_at.slice(0, 19),
        last_used_at?.slice(0, 19) ?? 'never',
      ])
      process.stdout.write(
        flags.json ? `${JSON.stringify(keys)}\n` : `${table(['ID', 'NAME', 'SCOPE', 'CREATED', 'LAST USED'], rows)}\n`,
      )
    })
  key
    .command('revoke')
    .description('Revoke an API key; it stops working at once.')
    .argument('<id>', 'its number in neap key list')
    .addOption(dataDir)
    .option('--json', 'print JSON')
    .action(async (id: string, flags: Flags) => {
      if (!/^\d{1,15}$/.test(id)) throw new UsageError(`'${id}' is not the number of a key; neap key list shows them.`)
      const revoked = await localClient(flags)('DELETE /api_keys/:key_id', { params: { key_id: Number(id) } })
      process.stdout.write(
        flags.json ? `${JSON.stringify(revoked)}\n` : `Revoked the key ${revoked.name} (${revoked.id}).\n`,
      )
    })
  return key
}
