import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { call, prepare } from '../api.ts'
import { useOrganizations, useShownOrganization } from '../organizations_query.ts'
import { Field, textOf } from '../parts/field.tsx'
import { FormDialog } from '../parts/form_dialog.tsx'
import { ONLY_ADMINS, RoleField } from '../parts/role_field.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'
import { useMe } from '../me.ts'
import { Invitations } from './invitations.tsx'

type Listed = ApiResponse<'GET /organizations/:org_id/members'>['members'][number]

/** The members of the organization, and its invitations. */
export function Members() {
  const organizations = useOrganizations()
  const shown = useShownOrganization()
  if (organizations.error) return <Failure error={organizations.error} retry={() => void organizations.refetch()} />
  if (!shown) return <Loading what="Reading the organization" />
  const isAdmin = shown.role === 'admin'
  return (
    <>
      <div className="heading">
        <h1>{shown.name}</h1>
        <Rename id={shown.id} name={shown.name} unavailable={isAdmin ? undefined : ONLY_ADMINS} />
      </div>
      <MemberTable id={shown.id} isAdmin={isAdmin} />
      <Invitations id={shown.id} isAdmin={isAdmin} />
    </>
  )
}

function MemberTable({ id, isAdmin }: { readonly id: string; readonly isAdmin: boolean }) {
  const me = useMe().data?.id
  const members = useQuery({
    queryKey: ['members'],
    queryFn: async () => (await call('GET /organizations/:org_id/members', { params: { org_id: id } })).members,
  })
  if (members.error) return <Failure error={members.error} retry={() => void members.refetch()} />
  if (!members.data) return <Loading what="Reading the members" />
  const admins = members.data.filter(({ member }) => member.role === 'admin').length
  const columns: readonly Column<Listed>[] = [
    {
      title: 'Name',
      of: ({ user, member }) => (
        <>
          {user.name} {member.id === me && <span className="mark">you</span>}
        </>
      ),
    },
    { title: 'Email', of: ({ user }) => user.email },
    { title: 'Role', of: ({ member }) => <span className="mark">{member.role}</span> },
    { title: 'Joined', of: ({ member }) => <Moment at={member.joined_at} /> },
    {
      title: 'Actions',
      isActions: true,
      of: (listed) => {
        const isLast = listed.member.role === 'admin' && admins === 1
        const only = 'An organization keeps at least one admin. Make another member an admin first.'
        const unavailable = isAdmin ? (isLast ? only : undefined) : ONLY_ADMINS
        return (
          <>
            <ChangeRole listed={listed} unavailable={unavailable} />
            <Remove listed={listed} unavailable={unavailable} />
          </>
        )
      },
    },
  ]
  return (
    <section aria-labelledby="members">
      <div className="heading">
        <h2 id="members">Members</h2>
      </div>
      <Table label="Members" columns={columns} rows={members.data} keyOf={({ member }) => member.id} />
    </section>
  )
}

interface OfMember {
  readonly listed: Listed
  readonly unavailable: string | undefined
}

function useMembersChanged(): () => Promise<unknown> {
  const queries = useQueryClient()
  return () =>
    Promise.all(['members', 'organizations', 'me'].map((name) => queries.invalidateQueries({ queryKey: [name] })))
}

function ChangeRole({ listed: { member, user }, unavailable }: OfMember) {
  const changed = useMembersChanged()
  return (
    <FormDialog
      opener="Change role"
      title={`Role of ${user.name}`}
      verb="Change role"
      unavailable={unavailable}
      request={(fields) =>
        prepare('PATCH /organizations/:org_id/members/:member_id', {
          params: { org_id: member.org_id, member_id: member.id },
          body: { role: textOf(fields, 'role') ?? member.role },
        })
      }
      neap={(fields) => ['members', 'update', member.id, '--role', textOf(fields, 'role') ?? member.role]}
      done={changed}
    >
      <RoleField role={member.role} />
    </FormDialog>
  )
}

function Remove({ listed: { member, user }, unavailable }: OfMember) {
  const changed = useMembersChanged()
  return (
    <FormDialog
      opener="Remove"
      title={`Remove ${user.name}?`}
      verb="Remove member"
      isDangerous
      unavailable={unavailable}
      request={() =>
        prepare('DELETE /organizations/:org_id/members/:member_id', {
          params: { org_id: member.org_id, member_id: member.id },
        })
      }
      neap={() => ['members', 'remove', member.id]}
      done={changed}
    >
      <p>
        {user.name} ({user.email}) loses access at once. API keys belong to the organization and go on working: revoke
        those that {user.name} knows.
      </p>
    </FormDialog>
  )
}

function Rename({
  id,
  name,
  unavailable,
}: {
  readonly id: string
  readonly name: string
  readonly unavailable: string | undefined
}) {
  const changed = useMembersChanged()
  return (
    <FormDialog
      opener="Rename"
      title="Rename the organization"
      verb="Rename"
      unavailable={unavailable}
      request={(fields) =>
        prepare('PATCH /organizations/:org_id', {
          params: { org_id: id },
          body: { organization: { name: textOf(fields, 'name') ?? '' } },
        })
      }
      done={changed}
    >
      <Field label="Name">
        <input name="name" required maxLength={64} defaultValue={name} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}
