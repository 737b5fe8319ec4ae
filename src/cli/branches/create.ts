import { Command, Option } from 'commander'
import { branchId, branchNow } from '../resolve.ts'
import { card } from '../table.ts'
import {
  type ColumnMask,
  columnMask,
  computeSize,
  expiresAt,
  expiryOrNever,
  pastMoment,
  type PastMoment,
  type SizeLimits,
  suspendTimeout,
} from '../values.ts'
import { type VerbSession, verb, waits } from '../verb.ts'
import { MADE } from './columns.ts'

interface Flags {
  readonly parent?: string
  readonly at?: PastMoment
  readonly schemaOnly?: boolean
  readonly mask?: readonly ColumnMask[]
  readonly endpoint: boolean
  readonly expires?: string
  readonly cu?: SizeLimits
  readonly suspendTimeout?: number
}

export const createVerb = () =>
  waits(
    new Command('create')
      .description(
        'Create a branch: a copy of its parent, as that is now or was at a moment, with an endpoint of its own.',
      )
      .argument('[name]', 'its name; its id unless given')
      .option('--parent <branch>', 'id or name of the branch to copy; the default branch unless given')
      .addOption(
        new Option('--at <when>', 'as its parent was then: 30m or 2h ago, a moment, or an LSN').argParser(pastMoment),
      )
      .option('--schema-only', 'with the objects of its parent, without their data')
      .addOption(
        new Option(
          '--mask <column=expression>',
          'mask a column before a client may enter, such as neondb.public.person.email=anon.fake_email(); ' +
            'may be repeated',
        ).argParser(columnMask),
      )
      .addOption(
        new Option('--expires <when>', 'when to delete it: 12h or 7d from now, a moment, or never').argParser(
          expiryOrNever,
        ),
      )
      .option('--no-endpoint', 'without an endpoint; neap endpoints create gives it one')
      .addOption(new Option('--cu <size>', 'size of its compute: 0.5, or 1-4 to scale between').argParser(computeSize))
      .addOption(
        new Option('--suspend-timeout <seconds>', 'idle seconds until it sleeps, never, or default').argParser(
          suspendTimeout,
        ),
      ),
  ).action(
    verb(async ({ call, flags, project }: VerbSession<Flags>, name?: string) => {
      const params = await project()
      const parent_id = flags.parent && (await branchId(call, params.project_id, flags.parent))
      const endpoint = { type: 'read_write', ...flags.cu, suspend_timeout_seconds: flags.suspendTimeout }
      const moment =
        flags.at && ('lsn' in flags.at ? { parent_lsn: flags.at.lsn } : { parent_timestamp: flags.at.timestamp })
      const init_source = flags.schemaOnly ? 'schema-only' : undefined
      const branch = { name, parent_id, expires_at: expiresAt(flags.expires), init_source, ...moment }
      const request = { branch, endpoints: flags.endpoint ? [endpoint] : [] }
      const { mask: masking_rules } = flags
      const masked = { branch_create: request, masking_rules: [...(masking_rules ?? [])], start_anonymization: true }
      const answer = masking_rules
        ? await call('POST /projects/:project_id/branch_anonymized', { params, body: masked })
        : await call('POST /projects/:project_id/branches', { params, body: request })
      return {
        answer,
        text: (made) => card(made, MADE),
        refresh: () => branchNow(call, answer.branch),
      }
    }),
  )
