import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { send } from '../api.ts'
import { switchOrganization } from '../organization.ts'
import { ActionButton } from '../parts/action_button.tsx'
import { Field, textOf } from '../parts/field.tsx'
import { InlineForm } from '../parts/inline_form.tsx'
import { Loading } from '../parts/states.tsx'
import { Moment } from '../parts/time.tsx'
import { useMe } from '../me.ts'
import { Alone, SignInByOidc, SignInForm } from './signed_out.tsx'

interface Invitation {
  readonly organization: string
  readonly organization_id: string
  readonly role: 'admin' | 'editor' | 'viewer'
  readonly email: string
  readonly invited_by: string
  readonly expires_at: string
}

const MAY = {
  admin: 'do everything there, also with members and keys',
  editor: 'see and change projects',
  viewer: 'see projects',
}

const look = async (token: string) =>
  (await send('POST', '/invitation', { body: { token } })).json() as Promise<Invitation>

/** The page of an invitation's link. @param token of the link */
export function InvitationPage({ token }: { readonly token: string }) {
  const found = useQuery({ queryKey: ['invitation'], queryFn: () => look(token), enabled: token !== '' })
  const me = useMe()
  const problem = token === '' ? 'Open the link of the invitation again.' : found.error?.message
  if (problem !== undefined)
    return (
      <Alone title="Invitation">
        <p role="alert">{problem}</p>
        <p>
          <a href="/">Go to the console</a>
        </p>
      </Alone>
    )
  if (!found.data || me.isPending) return <Loading what="Reading the invitation" />
  const { organization, role, invited_by, expires_at } = found.data
  return (
    <Alone title={`Join ${organization}`}>
      <p>
        {invited_by === '' ? 'You are invited' : `${invited_by} invites you`} as {role === 'viewer' ? 'a' : 'an'} {role}
        : you may {MAY[role]}. The link works once, and expires <Moment at={expires_at} />.
      </p>
      {me.data ? <Accept token={token} name={me.data.name} /> : <Newcomer token={token} email={found.data.email} />}
    </Alone>
  )
}

function Accept({ token, name }: { readonly token: string; readonly name: string }) {
  return (
    <p>
      <ActionButton
        act={async () => {
          const answer = await send('POST', '/invitation/accept', { body: { token } })
          switchOrganization(((await answer.json()) as { organization_id: string }).organization_id)
        }}
      >
        Join as {name}
      </ActionButton>
    </p>
  )
}

function Newcomer({ token, email }: { readonly token: string; readonly email: string }) {
  const [isKnown, setKnown] = useState(false)
  return (
    <>
      {isKnown ? <SignInForm /> : <JoinForm token={token} email={email} />}
      {!isKnown && <SignInByOidc invitation={token} />}
      <p>
        <button type="button" className="link" onClick={() => setKnown(!isKnown)}>
          {isKnown ? 'I have not signed in here before' : 'I have signed in here before'}
        </button>
      </p>
    </>
  )
}

function JoinForm({ token, email }: { readonly token: string; readonly email: string }) {
  const queries = useQueryClient()
  return (
    <InlineForm
      label="Join"
      verb="Join"
      submit={async (fields) => {
        await send('POST', '/invitation/join', {
          body: {
            token,
            name: textOf(fields, 'name'),
            email: textOf(fields, 'email'),
            password: textOf(fields, 'password'),
          },
        })
        queries.clear()
        switchOrganization('')
        return undefined
      }}
    >
      <Field label="Your name">
        <input name="name" required maxLength={64} autoComplete="name" />
      </Field>
      <Field label="Email" hint="You sign in with it.">
        <input name="email" type="email" required maxLength={254} defaultValue={email} autoComplete="username" />
      </Field>
      <Field label="Password" hint="At least 12 characters. Several words make a good one.">
        <input name="password" type="password" required minLength={12} maxLength={200} autoComplete="new-password" />
      </Field>
    </InlineForm>
  )
}
