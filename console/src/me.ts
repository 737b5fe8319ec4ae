import { useQuery, useQueryClient } from '@tanstack/react-query'
import { call, send } from './api.ts'
import { switchOrganization } from './organization.ts'

/** The person who looks. */
export const useMe = () => useQuery({ queryKey: ['me'], queryFn: () => call('GET /users/me', {}) })

/** Ends the session, here and at the API. */
export function useSignOut(): () => Promise<void> {
  const queries = useQueryClient()
  return async () => {
    await send('DELETE', '/session')
    queries.clear()
    // The next person at this browser sees his own.
    switchOrganization('')
  }
}
