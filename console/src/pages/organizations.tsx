import { prepare } from '../api.ts'
import { switchOrganization } from '../organization.ts'
import { isShown, type Organization, useOrganizations } from '../organizations_query.ts'
import { Field, textOf } from '../parts/field.tsx'
import { FormDialog } from '../parts/form_dialog.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'

/** The organizations of the person who looks. */
export function Organizations() {
  const organizations = useOrganizations()
  if (organizations.error) return <Failure error={organizations.error} retry={() => void organizations.refetch()} />
  if (!organizations.data) return <Loading what="Reading your organizations" />
  const { organizations: all, creation_refused } = organizations.data
  return (
    <section aria-labelledby="organizations">
      <div className="heading">
        <h2 id="organizations">Organizations</h2>
        <NewOrganization unavailable={creation_refused} />
      </div>
      <Table label="Organizations" columns={columnsFor(all)} rows={all} keyOf={({ id }) => id} />
    </section>
  )
}

const columnsFor = (all: readonly Organization[]): readonly Column<Organization>[] => [
  {
    title: 'Name',
    of: ({ id, name }) => (
      <>
        {name} {isShown(id, all) && <span className="mark">shown now</span>} <small>{id}</small>
      </>
    ),
  },
  { title: 'You are', of: ({ role }) => role },
  { title: 'Created', of: ({ created_at }) => <Moment at={created_at} /> },
  {
    title: 'Actions',
    isActions: true,
    of: (organization) => (
      <>
        {!isShown(organization.id, all) && (
          <button type="button" onClick={() => switchOrganization(organization.id)}>
            Show
          </button>
        )}
        <Leave organization={organization} isHere={isShown(organization.id, all)} />
      </>
    ),
  },
]

function NewOrganization({ unavailable }: { readonly unavailable: string | undefined }) {
  return (
    <FormDialog
      isPersonal
      opener="New organization"
      title="New organization"
      verb="Create organization"
      unavailable={unavailable}
      request={(fields) =>
        prepare('POST /organizations', { body: { organization: { name: textOf(fields, 'name') ?? '' } } })
      }
      done={({ id }) => switchOrganization(id)}
    >
      <p>It has projects, members and keys of its own. You are its first admin.</p>
      <Field label="Name">
        <input name="name" required maxLength={64} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}

function Leave({ organization, isHere }: { readonly organization: Organization; readonly isHere: boolean }) {
  return (
    <FormDialog
      isPersonal
      opener="Leave"
      title={`Leave ${organization.name}?`}
      verb="Leave"
      isDangerous
      unavailable={isHere ? undefined : 'Show this organization first, then leave it.'}
      request={() => prepare('DELETE /users/me/organizations/:org_id', { params: { org_id: organization.id } })}
      done={() => switchOrganization('')}
    >
      <p>You lose access to its projects at once. An admin can invite you again.</p>
    </FormDialog>
  )
}
