import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { call, isSignedOut, send } from './api.ts'
import { Failure, Loading } from './parts/states.tsx'
import { SignedOut } from './pages/signed_out.tsx'

/** The token of a sign-in link in the address, which is removed from there at once: browsers keep a history. */
function takeLink(): string | undefined {
  const [, token] = /^#sign-in=(\w+)$/.exec(location.hash) ?? []
  if (token !== undefined) history.replaceState(null, '', location.pathname)
  return token
}

const link = takeLink()
let signIn: Promise<unknown> | undefined

/** Signs in by the link in the address, once, however often React renders. */
const signInByLink = (token: string): Promise<unknown> =>
  (signIn ??= send('POST', '/session', { body: { link: token } }))

export const useMe = () => useQuery({ queryKey: ['me'], queryFn: () => call('GET /users/me', {}) })

/** Shows its children to a person who has signed in, and to others how to. */
export function SignedIn({ children }: { readonly children: ReactNode }) {
  const [problem, setProblem] = useState<string>()
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
  if (me.data && !isSignedOut(me.error)) return children
  if (isSignedOut(me.error)) return <SignedOut problem={problem} />
  if (me.error) return <Failure error={me.error} retry={() => void me.refetch()} />
  return <Loading what="Asking who you are" />
}

/** Ends the session, here and at the API. */
export function useSignOut(): () => Promise<void> {
  const queries = useQueryClient()
  return async () => {
    await send('DELETE', '/session')
    queries.clear()
    location.assign('/')
  }
}
