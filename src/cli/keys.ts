import { Command, InvalidArgumentError, Option } from 'commander'
import type { ApiResponse } from '../client.ts'
import { type Columns, list, moment, printable } from './table.ts'
import { expiry } from './values.ts'
import { noun, type VerbSession, verb } from './verb.ts'

const COLUMNS: Columns<ApiResponse<'GET /api_keys'>[number]> = {
  ID: ({ id }) => String(id),
  NAME: ({ name }) => name,
  SCOPE: ({ scope }) => scope,
  PROJECT: ({ project_id }) => project_id,
  EXPIRES: ({ expires_at }) => moment(expires_at),
  CREATED: ({ created_at }) => moment(created_at),
  'LAST USED': ({ last_used_at }) => moment(last_used_at) ?? 'never',
}

interface NewKey {
  readonly scope: 'read' | 'write' | 'admin'
  readonly project?: string
  readonly expires?: string
}

/** `neap keys …`, also `neap key …`. */
export function keysCommand(access: readonly Option[]): Command {
  return noun('keys', 'API keys: for programs, and for other machines.', access, [
    new Command('list').description('List the API keys that are in force.').action(
      verb(async ({ call }: VerbSession<object>) => ({
        answer: await call('GET /api_keys', {}),
        text: (keys) => list(keys, COLUMNS, 'No keys.'),
      })),
    ),
    new Command('create')
      .description('Create an API key and print it, this once: only its hash is kept.')
      .argument('[name]', 'what it is for', 'cli')
      .addOption(new Option('--scope <scope>', 'what it may do').choices(['read', 'write', 'admin']).default('write'))
      .option('-p, --project <project>', 'the one project that it is for: its id or name')
      .addOption(
        new Option('--expires <when>', 'when it ceases to work: 12h or 7d from now, or a moment').argParser(expiry),
      )
      .action(
        verb(async ({ call, flags, project }: VerbSession<NewKey>, key_name: string) => {
          const { scope, expires: expires_at } = flags
          const restriction = flags.project === undefined ? {} : await project()
          return {
            answer: await call('POST /api_keys', { body: { key_name, scope, expires_at, ...restriction } }),
            text: ({ key }) => key,
          }
        }),
      ),
    new Command('revoke')
      .description('Revoke an API key; it stops working at once.')
      .argument('<id>', 'its number in neap keys list', keyNumber)
      .action(
        verb(async ({ call }: VerbSession<object>, key_id: number) => ({
          answer: await call('DELETE /api_keys/:key_id', { params: { key_id } }),
          text: ({ name, id }) => `Revoked the key ${printable(name)} (${id}).`,
        })),
      ),
  ]).alias('key')
}

function keyNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new InvalidArgumentError('It takes the number of a key; neap keys list shows them.')
  return Number(text)
}
