import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { call, prepare } from '../api.ts'
import { Field, textOf } from '../parts/field.tsx'
import { FormDialog } from '../parts/form_dialog.tsx'
import { InlineForm } from '../parts/inline_form.tsx'
import { whyNoPasskeys } from '../parts/passkey_support.ts'
import { Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'

type Passkey = ApiResponse<'GET /users/me/passkeys'>['passkeys'][number]

const QUERY = { queryKey: ['me', 'passkeys'], queryFn: async () => (await call('GET /users/me/passkeys', {})).passkeys }

/** The passkeys of the person who looks. */
export function Passkeys() {
  const queries = useQueryClient()
  const passkeys = useQuery(QUERY)
  const unavailable = whyNoPasskeys()
  if (passkeys.error) return <Failure error={passkeys.error} retry={() => void passkeys.refetch()} />
  if (!passkeys.data) return <Loading what="Reading your passkeys" />
  return (
    <section className="panel" aria-labelledby="passkeys">
      <h2 id="passkeys">Passkeys</h2>
      <p>Sign in by a finger, a face, a PIN or a security key. Nothing to remember, and nothing to steal from Neap.</p>
      {passkeys.data.length > 0 && (
        <Table label="Passkeys" columns={COLUMNS} rows={passkeys.data} keyOf={({ id }) => id} />
      )}
      {unavailable !== undefined ? (
        <p>
          <small>{unavailable}</small>
        </p>
      ) : (
        <InlineForm
          label="New passkey"
          verb="Add a passkey"
          submit={async (fields) => {
            const { options } = await call('POST /users/me/passkeys/options', {})
            const { createPasskey } = await import('../passkey.ts')
            const response = await createPasskey(options)
            await call('POST /users/me/passkeys', {
              body: { passkey: { name: textOf(fields, 'name') ?? '', response } },
            })
            await queries.invalidateQueries({ queryKey: QUERY.queryKey })
            return 'Added.'
          }}
        >
          <Field label="Name of the new passkey" hint="The device that keeps it.">
            <input name="name" required maxLength={64} autoComplete="off" placeholder="My phone" />
          </Field>
        </InlineForm>
      )}
    </section>
  )
}

const COLUMNS: readonly Column<Passkey>[] = [
  {
    title: 'Name',
    of: ({ name, host }) => (
      <>
        {name} <small>for {host}</small>
      </>
    ),
  },
  { title: 'Last used', of: ({ last_used_at }) => (last_used_at ? <Moment at={last_used_at} /> : 'never') },
  {
    title: 'Actions',
    isActions: true,
    of: (passkey) => (
      <>
        <Rename passkey={passkey} />
        <Remove passkey={passkey} />
      </>
    ),
  },
]

function Rename({ passkey: { id, name } }: { readonly passkey: Passkey }) {
  const queries = useQueryClient()
  return (
    <FormDialog
      isPersonal
      opener="Rename"
      title="Rename the passkey"
      verb="Rename"
      request={(fields) =>
        prepare('PATCH /users/me/passkeys/:passkey_id', {
          params: { passkey_id: id },
          body: { passkey: { name: textOf(fields, 'name') ?? '' } },
        })
      }
      done={() => queries.invalidateQueries({ queryKey: QUERY.queryKey })}
    >
      <Field label="Name">
        <input name="name" required maxLength={64} defaultValue={name} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}

function Remove({ passkey: { id, name } }: { readonly passkey: Passkey }) {
  const queries = useQueryClient()
  return (
    <FormDialog
      isPersonal
      opener="Remove"
      title={`Remove ${name}?`}
      verb="Remove passkey"
      isDangerous
      request={() => prepare('DELETE /users/me/passkeys/:passkey_id', { params: { passkey_id: id } })}
      done={() => queries.invalidateQueries({ queryKey: QUERY.queryKey })}
    >
      <p>It signs in no more. Remove it on the device too.</p>
    </FormDialog>
  )
}
