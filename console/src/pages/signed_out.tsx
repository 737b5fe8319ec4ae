import { useQueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { showPasskey } from '../passkey.ts'
import { isSignedOut, send } from '../api.ts'
import { Copied } from '../parts/copied.tsx'
import { useOidc } from '../oidc.ts'
import { ActionButton } from '../parts/action_button.tsx'
import { Field, textOf } from '../parts/field.tsx'
import { InlineForm } from '../parts/inline_form.tsx'
import { whyNoPasskeys } from '../parts/passkey_support.ts'

/** How to sign in. */
export function SignedOut({ problem }: { readonly problem: string | undefined }) {
  return (
    <Alone title="Sign in to Neap">
      {problem !== undefined && <p role="alert">{problem}</p>}
      <SignInForm />
      {whyNoPasskeys() === undefined && <SignInByPasskey />}
      <SignInByOidc />
      <details open={problem !== undefined}>
        <summary>Sign in by a link</summary>
        <p>On the machine that runs Neap, make a link and open it here:</p>
        <p>
          <Copied text="npx neap sign-in" what="the command" />
        </p>
        <p>
          For another person than the operator: <code>npx neap sign-in --email …</code>
        </p>
      </details>
    </Alone>
  )
}

/** A page without the frame of the console. */
export function Alone({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <main className="alone">
      <img src="/icon.svg" alt="" width="48" height="48" />
      <h1>{title}</h1>
      {children}
    </main>
  )
}

/** A refused sign-in is no session that has ended: the form shows it and stays. */
export function asRefusal(error: unknown): never {
  throw isSignedOut(error) ? new Error((error as Error).message) : error
}

/** Signs in by email and password. */
export function SignInForm() {
  const queries = useQueryClient()
  return (
    <InlineForm
      label="Sign in"
      verb="Sign in"
      submit={async (fields) => {
        const body = { email: textOf(fields, 'email'), password: textOf(fields, 'password') }
        await send('POST', '/session', { body }).catch(asRefusal)
        await queries.invalidateQueries({ queryKey: ['me'] })
        return undefined
      }}
    >
      <Field label="Email">
        <input name="email" type="email" required maxLength={254} autoComplete="username webauthn" />
      </Field>
      <Field label="Password">
        <input name="password" type="password" required maxLength={200} autoComplete="current-password" />
      </Field>
    </InlineForm>
  )
}

function SignInByPasskey() {
  const queries = useQueryClient()
  const signIn = async () => {
    const answer = await send('POST', '/session/passkey')
    const { options } = (await answer.json()) as { options: Parameters<typeof showPasskey>[0] }
    const passkey = await (await import('../passkey.ts')).showPasskey(options)
    await send('POST', '/session', { body: { passkey } }).catch(asRefusal)
    await queries.invalidateQueries({ queryKey: ['me'] })
  }
  return (
    <p>
      <ActionButton act={signIn}>Sign in with a passkey</ActionButton>
    </p>
  )
}

/** Signs in at the provider of the settings, if there is one. @param invitation the token of a link to join by */
export function SignInByOidc({ invitation }: { readonly invitation?: string }) {
  const { name, go } = useOidc()
  if (name === undefined) return null
  return (
    <p>
      <ActionButton act={() => go(invitation === undefined ? {} : { invitation })}>
        {invitation === undefined ? 'Sign in' : 'Join'} with {name}
      </ActionButton>
    </p>
  )
}
