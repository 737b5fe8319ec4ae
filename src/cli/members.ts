import { Command, Option } from 'commander'
import type { ApiClient, ApiResponse } from '../client.ts'
import { type Columns, list, moment, printable } from './table.ts'
import { expiry } from './values.ts'
import { noun, type VerbSession, verb } from './verb.ts'

type Listed = ApiResponse<'GET /organizations/:org_id/members'>['members'][number]
type Invitation = ApiResponse<'GET /organizations/:org_id/invitations'>['invitations'][number]
type RoleName = Listed['member']['role']

const ORGANIZATION = new Option('--organization <id>', 'another organization than the first, on this machine')
const ROLE = () => new Option('--role <role>', 'what they may do').choices(['admin', 'editor', 'viewer'])

const COLUMNS: Columns<Listed> = {
  ID: ({ member }) => member.id,
  NAME: ({ user }) => user.name,
  EMAIL: ({ user }) => user.email,
  ROLE: ({ member }) => member.role,
  JOINED: ({ member }) => moment(member.joined_at),
}

const INVITATIONS: Columns<Invitation> = {
  ID: ({ id }) => id,
  FOR: ({ email }) => email || undefined,
  ROLE: ({ role }) => role,
  BY: ({ invited_by_name }) => invited_by_name || undefined,
  EXPIRES: ({ expires_at }) => moment(expires_at),
}

interface Flags {
  readonly organization?: string
  readonly role: RoleName
  readonly email?: string
  readonly expires?: string
}

/** The organization that the flags name, or that of the key: for the path, and for the socket's header. */
async function placeOf(call: ApiClient, { organization }: Flags) {
  const options = { organization }
  if (organization !== undefined) return { org_id: organization, options }
  const { organizations } = await call('GET /users/me/organizations', {})
  return { org_id: organizations[0]?.id ?? '', options }
}

/** `neap members …` */
export function membersCommand(access: readonly Option[]): Command {
  return noun('members', 'The people of an organization, and invitations to it.', access, [
    new Command('list')
      .description('List the members.')
      .addOption(ORGANIZATION)
      .action(
        verb(async ({ call, flags }: VerbSession<Flags>) => {
          const { org_id, options } = await placeOf(call, flags)
          return {
            answer: await call('GET /organizations/:org_id/members', { params: { org_id } }, options),
            text: ({ members }) => list(members, COLUMNS, 'No members.'),
          }
        }),
      ),
    new Command('update')
      .description('Change the role of a member.')
      .argument('<id>', 'the id of the member')
      .addOption(ROLE().makeOptionMandatory())
      .addOption(ORGANIZATION)
      .action(
        verb(async ({ call, flags }: VerbSession<Flags>, member_id: string) => {
          const { org_id, options } = await placeOf(call, flags)
          const input = { params: { org_id, member_id }, body: { role: flags.role } }
          return {
            answer: await call('PATCH /organizations/:org_id/members/:member_id', input, options),
            text: ({ id, role }) => `${id} is ${role} now.`,
          }
        }),
      ),
    new Command('remove')
      .description('Remove a member, who loses access at once.')
      .argument('<id>', 'the id of the member')
      .addOption(ORGANIZATION)
      .action(
        verb(async ({ call, flags }: VerbSession<Flags>, member_id: string) => {
          const { org_id, options } = await placeOf(call, flags)
          const input = { params: { org_id, member_id } }
          return {
            answer: await call('DELETE /organizations/:org_id/members/:member_id', input, options),
            text: ({ id }) => `Removed ${id}.`,
          }
        }),
      ),
    ...invitationCommands(),
  ]).alias('member')
}

function invitationCommands(): Command[] {
  return [
    new Command('invite')
      .description('Print a link by which one person joins, once.')
      .addOption(ROLE().default('viewer'))
      .option('--email <email>', 'whom it is meant for')
      .addOption(new Option('--expires <when>', 'when it ceases to work: 12h or 7d from now').argParser(expiry))
      .addOption(ORGANIZATION)
      .action(
        verb(async ({ call, flags }: VerbSession<Flags>) => {
          const { org_id, options } = await placeOf(call, flags)
          const { role, email, expires: expires_at } = flags
          const input = { params: { org_id }, body: { invitations: [{ role, email, expires_at }] } }
          return {
            answer: await call('POST /organizations/:org_id/invitations', input, options),
            text: ({ invitations }) => invitations.map(({ url }) => url).join('\n'),
          }
        }),
      ),
    new Command('invitations')
      .description('List the invitations that can still be used.')
      .addOption(ORGANIZATION)
      .action(
        verb(async ({ call, flags }: VerbSession<Flags>) => {
          const { org_id, options } = await placeOf(call, flags)
          return {
            answer: await call('GET /organizations/:org_id/invitations', { params: { org_id } }, options),
            text: ({ invitations }) => list(invitations, INVITATIONS, 'No open invitations.'),
          }
        }),
      ),
    new Command('uninvite')
      .description('Revoke an invitation; its link works no more.')
      .argument('<id>', 'its id in neap members invitations')
      .addOption(ORGANIZATION)
      .action(
        verb(async ({ call, flags }: VerbSession<Flags>, invitation_id: string) => {
          const { org_id, options } = await placeOf(call, flags)
          const input = { params: { org_id, invitation_id } }
          return {
            answer: await call('DELETE /organizations/:org_id/invitations/:invitation_id', input, options),
            text: () => `Revoked ${printable(invitation_id)}.`,
          }
        }),
      ),
  ]
}
