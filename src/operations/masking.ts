import { randomBytes } from 'node:crypto'
import type { StoredBranch } from '../catalog/branch.ts'
import { findMasking, setAnonymized, setMaskingProgress } from '../catalog/masking.ts'
import type { Db } from '../catalog/catalog.ts'
import { MASKER, maskData, MaskingRefused } from '../compute_admin/mask_data.ts'
import { withAdminSession, withRoleSession } from '../compute_admin/session.ts'
import type { RunningCompute } from '../compute/compute.ts'
import type { WorkerContext } from '../context.ts'
import { type Claimed, OperationFailed, type StepOutcome, waitUntil } from '../engine/definition.ts'
import { scramVerifier } from '../postgres/scram_verifier.ts'
import { endHistory } from './wal_history.ts'
import { longRun } from './long_run.ts'

const PURPOSE = 'anonymize'
const LONGEST_MS = 6 * 3_600_000

/** Masks the data of a branch in its compute, once. Errors: OperationFailed (its rules do not fit its data). */
export async function mask(
  operation: Claimed,
  context: WorkerContext,
  tx: Db,
  branch: StoredBranch,
  compute: RunningCompute,
): Promise<StepOutcome | undefined> {
  const masking = await findMasking(tx, branch.id)
  // The step may run again once it has done its work.
  if (!masking || branch.masking_state === 'anonymized') return undefined
  try {
    const ended = longRun(`${operation.id} ${compute.id}`, () => maskNow(context, branch, compute, masking.rules))
    if (ended) return waitUntil(ended, masking.message ?? 'data are being masked')
  } catch (error) {
    throw error instanceof MaskingRefused ? new OperationFailed(error.message) : error
  }
  await setAnonymized(tx, branch.id, masking.rules.length)
  return undefined
}

async function maskNow(
  context: WorkerContext,
  branch: StoredBranch,
  { address }: RunningCompute,
  rules: Parameters<typeof maskData>[1],
): Promise<void> {
  const { catalog, secrets } = context
  const password = randomBytes(24).toString('base64url')
  const verifier = await scramVerifier(password)
  const options = { purpose: PURPOSE, timeoutMs: LONGEST_MS }
  await withAdminSession(address, secrets.stores, options, async (session) => {
    await maskData(
      {
        session,
        verifier,
        asMasker: (database, work) =>
          withRoleSession(address, { user: MASKER, password, database, purpose: PURPOSE }, work),
        onProgress: (message) => setMaskingProgress(catalog, branch.id, message),
      },
      rules,
    )
    await endHistory(context, session, branch)
  })
}
