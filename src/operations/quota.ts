import type { Db } from '../catalog/catalog.ts'
import { findExceededQuota, type QuotaName } from '../catalog/quota.ts'
import { AppError, type QUOTA_ERRORS } from '../errors.ts'

const REFUSALS: Readonly<Record<QuotaName, { readonly code: (typeof QUOTA_ERRORS)[number]; readonly what: string }>> = {
  active_time_seconds: { code: 'COMPUTE_TIME_EXCEEDED', what: 'compute time' },
  compute_time_seconds: { code: 'COMPUTE_TIME_EXCEEDED', what: 'compute time' },
  written_data_bytes: { code: 'WRITTEN_DATA_LIMIT_EXCEEDED', what: 'written data' },
  data_transfer_bytes: { code: 'DATA_TRANSFER_LIMIT_EXCEEDED', what: 'data transfer' },
}

/** Errors: those of REFUSALS, when the project has used up a quota of this month. */
export async function requireWithinQuota(db: Db, projectId: string): Promise<void> {
  const name = await findExceededQuota(db, projectId)
  if (name === undefined) return
  const { code, what } = REFUSALS[name]
  throw new AppError(
    code,
    // Clients know this sentence.
    `Your account or project has exceeded the ${what} quota. Upgrade your plan to increase limits. ` +
      `(The project setting quota.${name} holds until the end of the month.)`,
  )
}
