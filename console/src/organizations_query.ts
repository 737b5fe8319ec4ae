import { useQuery } from '@tanstack/react-query'
import type { ApiResponse } from '../../src/client.ts'
import { call } from './api.ts'
import { organization as current } from './organization.ts'

export type Organization = ApiResponse<'GET /users/me/organizations'>['organizations'][number]

/** The organizations of the person who looks, the one joined first first. */
export const useOrganizations = () =>
  useQuery({ queryKey: ['organizations'], queryFn: () => call('GET /users/me/organizations', {}) })

/** Whether an organization of a list is the one that the page shows. */
export const isShown = (id: string, all: readonly Organization[]): boolean => id === (current || all[0]?.id)

/** Why the person may change nothing of this organization; undefined where he may, or that is not known yet. */
export const useWhyViewOnly = (): string | undefined =>
  useShownOrganization()?.role === 'viewer'
    ? 'You are a viewer of this organization: ask one of its admins to change that.'
    : undefined

/** The organization that the page shows; undefined until it is known. */
export function useShownOrganization(): Organization | undefined {
  const all = useOrganizations().data?.organizations ?? []
  return all.find(({ id }) => isShown(id, all))
}
