import { useQuery, useQueryClient } from '@tanstack/react-query'
import { call } from '../api.ts'
import { Field, textOf } from '../parts/field.tsx'
import { InlineForm } from '../parts/inline_form.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { Moment } from '../parts/time.tsx'
import { useMe } from '../me.ts'
import { Identities } from './oidc.tsx'
import { Organizations } from './organizations.tsx'
import { Passkeys } from './passkeys.tsx'
import { Sessions } from './sessions.tsx'

/** The person who looks: name, ways to sign in, organizations, sessions. */
export function You() {
  const me = useMe()
  if (!me.data) return <Loading what="Reading who you are" />
  return (
    <>
      <h1>You</h1>
      <div className="panels">
        <Profile name={me.data.name} email={me.data.email} />
        <Password />
        <Passkeys />
        <Identities />
      </div>
      <Organizations />
      <Sessions />
    </>
  )
}

function Profile({ name, email }: { readonly name: string; readonly email: string }) {
  const queries = useQueryClient()
  return (
    <section className="panel" aria-labelledby="profile">
      <h2 id="profile">Name and email</h2>
      <InlineForm
        label="Name and email"
        verb="Save"
        submit={async (fields) => {
          const user = { name: textOf(fields, 'name'), email: textOf(fields, 'email') }
          await call('PATCH /users/me', { body: { user } })
          await queries.invalidateQueries({ queryKey: ['me'] })
          return 'Saved.'
        }}
      >
        <Field label="Name">
          <input name="name" required maxLength={64} defaultValue={name} autoComplete="name" />
        </Field>
        <Field label="Email" hint="You sign in with it. Neap sends no letters.">
          <input name="email" type="email" required maxLength={254} defaultValue={email} autoComplete="email" />
        </Field>
      </InlineForm>
    </section>
  )
}

const PASSWORD = { queryKey: ['me', 'password'], queryFn: () => call('GET /users/me/password', {}) }

function Password() {
  const queries = useQueryClient()
  const stored = useQuery(PASSWORD)
  if (stored.error) return <Failure error={stored.error} retry={() => void stored.refetch()} />
  if (!stored.data) return <Loading what="Reading your password's date" />
  const { is_set, changed_at, needs_current } = stored.data
  return (
    <section className="panel" aria-labelledby="password">
      <h2 id="password">Password</h2>
      {!is_set && <p>You have none: you sign in by links. With a password you sign in from any machine.</p>}
      {changed_at !== undefined && (
        <p>
          Set <Moment at={changed_at} />.
        </p>
      )}
      {!is_set && needs_current ? (
        <p>
          To set one, sign in again by a link (<code>npx neap sign-in</code>), then come here within 15 minutes.
        </p>
      ) : (
        <InlineForm
          label="Password"
          verb={is_set ? 'Change password' : 'Set password'}
          submit={async (fields) => {
            const [current_password, new_password] = [textOf(fields, 'current'), textOf(fields, 'new') ?? '']
            await call('POST /users/me/password', { body: { current_password, new_password } })
            await queries.invalidateQueries({ queryKey: PASSWORD.queryKey })
            await queries.invalidateQueries({ queryKey: ['sessions'] })
            return 'Changed. Your other sessions have ended.'
          }}
        >
          {needs_current && (
            <Field label="Current password">
              <input name="current" type="password" required maxLength={200} autoComplete="current-password" />
            </Field>
          )}
          <Field label="New password" hint="At least 12 characters. Several words make a good one.">
            <input name="new" type="password" required minLength={12} maxLength={200} autoComplete="new-password" />
          </Field>
        </InlineForm>
      )}
    </section>
  )
}
