import type { InfiniteData, QueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../src/client.ts'
import type { Operation } from './api.ts'

/** Operations per page of a list; a page with fewer is the last. */
export const PAGE = 200

export const STATUSES = ['scheduling', 'running', 'finished', 'failed'] as const

/** Which operations are listed; a missing field lists all. */
export interface OperationFilter {
  readonly branch?: string
  readonly action?: string
  readonly status?: (typeof STATUSES)[number]
}

type List = InfiniteData<ApiResponse<'GET /projects/:project_id/operations'>, string | undefined>

const passes = ({ branch, action, status }: OperationFilter, operation: Operation): boolean =>
  (branch === undefined || operation.branch_id === branch) &&
  (action === undefined || operation.action === action) &&
  (status === undefined || operation.status === status)

/**
 * Puts a changed operation into each list that has been read: in its place, or out of it.
 * @param key what the keys of the lists begin with; a filter follows
 */
export function mergeOperation(queries: QueryClient, key: readonly unknown[], changed: Operation): void {
  for (const { queryKey } of queries.getQueryCache().findAll({ queryKey: key })) {
    const filter = queryKey[key.length] as OperationFilter
    queries.setQueryData<List>(queryKey, (before) => before && merged(before, changed, passes(filter, changed)))
  }
}

function merged(before: List, changed: Operation, isListed: boolean): List {
  let isPlaced = !isListed
  const pages = before.pages.map((page, number) => {
    const others = page.operations.filter(({ id }) => id !== changed.id)
    const isKnown = others.length < page.operations.length
    if (isPlaced) return isKnown ? { ...page, operations: others } : page
    const at = others.findIndex(({ created_at }) => created_at <= changed.created_at)
    const isLast = number === before.pages.length - 1 && page.operations.length < PAGE
    if (at < 0 && !isKnown && !isLast) return page
    isPlaced = true
    return { ...page, operations: others.toSpliced(at < 0 ? others.length : at, 0, changed) }
  })
  return { ...before, pages }
}
