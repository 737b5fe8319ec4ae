import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { call, prepare } from '../api.ts'
import { Copied } from '../parts/copied.tsx'
import { Field, textOf } from '../parts/field.tsx'
import { FormDialog } from '../parts/form_dialog.tsx'
import { ONLY_ADMINS, RoleField } from '../parts/role_field.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'

type Invitation = ApiResponse<'GET /organizations/:org_id/invitations'>['invitations'][number]

const DAY_MS = 86_400_000
const KEY = ['invitations']

/** The open invitations of an organization. */
export function Invitations({ id, isAdmin }: { readonly id: string; readonly isAdmin: boolean }) {
  const unavailable = isAdmin ? undefined : ONLY_ADMINS
  const invitations = useQuery({
    queryKey: KEY,
    queryFn: async () => (await call('GET /organizations/:org_id/invitations', { params: { org_id: id } })).invitations,
  })
  return (
    <section aria-labelledby="invitations">
      <div className="heading">
        <h2 id="invitations">Invitations</h2>
        <Invite id={id} unavailable={unavailable} />
      </div>
      {invitations.error && <Failure error={invitations.error} retry={() => void invitations.refetch()} />}
      {invitations.isPending && <Loading what="Reading the invitations" />}
      {invitations.data?.length === 0 && (
        <p className="state">No invitation is open. An invitation is a link that lets one person join, once.</p>
      )}
      {invitations.data && invitations.data.length > 0 && (
        <Table
          label="Invitations"
          columns={columnsWith(unavailable)}
          rows={invitations.data}
          keyOf={(each) => each.id}
        />
      )}
    </section>
  )
}

const columnsWith = (unavailable: string | undefined): readonly Column<Invitation>[] => [
  { title: 'For', of: ({ email }) => email || 'whoever has the link' },
  { title: 'Role', of: ({ role }) => <span className="mark">{role}</span> },
  { title: 'Invited', of: ({ invited_at }) => <Moment at={invited_at} /> },
  { title: 'By', of: ({ invited_by_name }) => invited_by_name || 'an API key' },
  { title: 'Expires', of: ({ expires_at }) => <Moment at={expires_at} /> },
  {
    title: 'Actions',
    isActions: true,
    of: (invitation) => <Revoke invitation={invitation} unavailable={unavailable} />,
  },
]

function Invite({ id, unavailable }: { readonly id: string; readonly unavailable: string | undefined }) {
  const queries = useQueryClient()
  return (
    <FormDialog
      opener="Invite"
      title="Invite a person"
      verb="Make the link"
      unavailable={unavailable}
      request={(fields) => {
        const days = Number(textOf(fields, 'days') ?? 7)
        return prepare('POST /organizations/:org_id/invitations', {
          params: { org_id: id },
          body: {
            invitations: [
              {
                role: textOf(fields, 'role') ?? 'viewer',
                email: textOf(fields, 'email'),
                expires_at: new Date(Date.now() + days * DAY_MS - 60_000).toISOString(),
              },
            ],
          },
        })
      }}
      neap={(fields) => [
        'members',
        'invite',
        '--role',
        textOf(fields, 'role') ?? 'viewer',
        ...(textOf(fields, 'email') === undefined ? [] : ['--email', textOf(fields, 'email') ?? '']),
        '--expires',
        `${textOf(fields, 'days') ?? 7}d`,
      ]}
      done={() => queries.invalidateQueries({ queryKey: KEY })}
      result={({ invitations: [made] }) => <Made url={made?.url ?? ''} />}
    >
      <RoleField role="viewer" />
      <Field label="Email" hint="Not needed. Neap sends no letters: you pass the link on.">
        <input name="email" type="email" maxLength={254} autoComplete="off" />
      </Field>
      <Field label="Days until it expires">
        <input name="days" type="number" min={1} max={30} defaultValue={7} required />
      </Field>
    </FormDialog>
  )
}

/** A new link, at the address by which this page was reached: others reach it there too. */
function Made({ url }: { readonly url: string }) {
  const { pathname, hash } = new URL(url)
  return (
    <>
      <p>Pass this link on. It is shown this once, and lets one person join.</p>
      <p>
        <Copied text={`${location.origin}${pathname}${hash}`} what="the link" />
      </p>
    </>
  )
}

function Revoke({
  invitation,
  unavailable,
}: {
  readonly invitation: Invitation
  readonly unavailable: string | undefined
}) {
  const queries = useQueryClient()
  return (
    <FormDialog
      opener="Revoke"
      title="Revoke the invitation?"
      verb="Revoke"
      isDangerous
      unavailable={unavailable}
      request={() =>
        prepare('DELETE /organizations/:org_id/invitations/:invitation_id', {
          params: { org_id: invitation.org_id, invitation_id: invitation.id },
        })
      }
      neap={() => ['members', 'uninvite', invitation.id]}
      done={() => queries.invalidateQueries({ queryKey: KEY })}
    >
      <p>Its link works no more.</p>
    </FormDialog>
  )
}
