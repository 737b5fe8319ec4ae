import { useQuery } from '@tanstack/react-query'
import { send } from './api.ts'

/** Texts for the problems that the provider's way back names. */
const PROBLEMS: Readonly<Record<string, string>> = {
  unknown:
    'You have not signed in here before. Ask an admin of your organization for an invitation, and open its link.',
  email_taken:
    'A person with your email signs in here otherwise. Sign in as that person, then connect your account on the page You.',
  no_email: 'Your account there has no email. Add one, then sign in again.',
  taken: 'Another person signs in here by that account. Disconnect it there first.',
  too_many: 'You have connected as many accounts as you may. Disconnect one first.',
  invitation: 'The invitation was used or has expired, or you have joined already. Sign in without it.',
  failed: 'The sign-in was not completed. Try again.',
}

/** What a fragment of the address says went wrong at the provider, if anything. */
export const oidcProblem = (name: string | undefined): string | undefined =>
  name === undefined ? undefined : (PROBLEMS[name] ?? PROBLEMS['failed'])

/** The provider's name, where one is set up, and how to go there. */
export function useOidc() {
  const ways = useQuery({
    queryKey: ['ways'],
    queryFn: async () => (await (await send('GET', '/session')).json()) as { readonly oidc?: string },
    staleTime: Infinity,
  })
  const go = async (body: { readonly invitation?: string; readonly connect?: boolean }) => {
    const answer = await send('POST', '/session/oidc', { body })
    location.assign(((await answer.json()) as { url: string }).url)
  }
  return { name: ways.data?.oidc, go }
}
