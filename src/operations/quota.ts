import type { Db } from '../catalog/catalog.ts'
import type { Endpoint } from '../catalog/endpoint.ts'
import { type ExceededQuota, findExceededQuota } from '../catalog/quota.ts'
import { AppError, type QUOTA_ERRORS } from '../errors.ts'

type QuotaName = ExceededQuota['name']
const REFUSALS: Readonly<Record<QuotaName, { readonly code: (typeof QUOTA_ERRORS)[number]; readonly what: string }>> = {
  active_time_seconds: { code: 'COMPUTE_TIME_EXCEEDED', what: 'compute time' },
  compute_time_seconds: { code: 'COMPUTE_TIME_EXCEEDED', what: 'compute time' },
  written_data_bytes: { code: 'WRITTEN_DATA_LIMIT_EXCEEDED', what: 'written data' },
  data_transfer_bytes: { code: 'DATA_TRANSFER_LIMIT_EXCEEDED', what: 'data transfer' },
  logical_size_bytes: { code: 'LOGICAL_SIZE_LIMIT_EXCEEDED', what: 'branch size' },
}

/** Errors: those of REFUSALS, when the project has used up a quota, or the branch has outgrown its limit. */
export async function requireWithinQuota(db: Db, endpoint: Pick<Endpoint, 'id' | 'project_id'>): Promise<void> {
  const exceeded = await findExceededQuota(db, endpoint)
  if (!exceeded) return
  const { of, name } = exceeded
  const { code, what } = REFUSALS[name]
  if (of === 'host')
    throw new AppError(
      code,
      'The disk of its host is almost full, and the branch grew on although writes are refused. ' +
        'It starts again once there is room on that disk.',
    )
  const remedy =
    of === 'branch'
      ? `Raise the project setting quota.${name}, and then delete data.`
      : `The ${of} setting quota.${name} holds until the end of the month.`
  throw new AppError(
    code,
    // Clients know the first two sentences.
    `Your account or project has exceeded the ${what} quota. Upgrade your plan to increase limits. (${remedy})`,
  )
}
