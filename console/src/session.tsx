import { type ReactNode, useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { ApiError, isGone, isSignedOut, send } from './api.ts'
import { useMe } from './me.ts'
import { oidcProblem } from './oidc.ts'
import { organization, switchOrganization } from './organization.ts'
import { Failure, Loading } from './parts/states.tsx'
import { InvitationPage } from './pages/invitation.tsx'
import { NoOrganization } from './pages/no_organization.tsx'
import { SignedOut } from './pages/signed_out.tsx'

/** The token of a link in the address, which is removed from there at once: browsers keep a history. */
function takeToken(pattern: RegExp): string | undefined {
  const [, token] = pattern.exec(location.hash) ?? []
  if (token !== undefined) history.replaceState(null, '', location.pathname)
  return token
}

const problemOfProvider = oidcProblem(takeToken(/^#problem=(\w+)$/))
const link = takeToken(/^#sign-in=(\w+)$/)
const invitation = location.pathname === '/invitation' ? takeToken(/^#(\w+)$/) : undefined
let signIn: Promise<unknown> | undefined

/** Signs in by the link in the address, once, however often React renders. */
const signInByLink = (token: string): Promise<unknown> =>
  (signIn ??= send('POST', '/session', { body: { link: token } }))

const isForbidden = (error: unknown): error is ApiError => error instanceof ApiError && error.status === 403

/** Shows its children to a person who has signed in, and to others how to. */
export function SignedIn({ children }: { readonly children: ReactNode }) {
  const [problem, setProblem] = useState<string | undefined>(problemOfProvider)
  const [isLinkUsed, setLinkUsed] = useState(link === undefined)
  useEffect(() => {
    if (link === undefined) return
    signInByLink(link)
      .catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)))
      .finally(() => setLinkUsed(true))
  }, [])
  if (!isLinkUsed) return <Loading what="Signing you in" />
  return <Known problem={problem}>{children}</Known>
}

function Known({ problem, children }: { readonly problem: string | undefined; readonly children: ReactNode }) {
  const me = useMe()
  const [path] = useLocation()
  if (path === '/invitation') return <InvitationPage token={invitation ?? ''} />
  if (me.data && !isSignedOut(me.error)) return children
  if (isSignedOut(me.error)) return <SignedOut problem={problem} />
  // A person who was removed from the organization that the browser remembers.
  if (isGone(me.error) && organization !== '') switchOrganization('')
  if (isForbidden(me.error)) return <NoOrganization message={me.error.message} />
  if (me.error) return <Failure error={me.error} retry={() => void me.refetch()} />
  return <Loading what="Asking who you are" />
}
