import type { ComputeAddress } from '../compute/compute.ts'
import type { Branch } from '../catalog/branch.ts'
import { computeAddress } from '../catalog/compute.ts'
import { findBranchEndpoint, type PlacedEndpoint } from '../catalog/endpoint.ts'
import { awaitOperations } from '../catalog/operation.ts'
import type { Project } from '../catalog/project.ts'
import { withPlace } from '../compute_admin/reading_places.ts'
import { COUNT_TIMEOUT_MS, countRows, type RowCounts } from '../compute_admin/row_counts.ts'
import { dumpSchema } from '../compute_admin/schema.ts'
import { withAdminSession } from '../compute_admin/session.ts'
import { unifiedDiff } from '../compute_admin/unified_diff.ts'
import type { Context } from '../context.ts'
import { AppError } from '../errors.ts'
import { requestStart } from '../operations/start_compute.ts'
import type { StoreSecrets } from '../secrets/stores.ts'

/** How often an ended compute is started again. */
const TRIES = 3

/**
 * The schema of a database of a branch, as SQL. Wakes an idle endpoint, as a connection does.
 * Errors: NOT_FOUND (the database), NOT_ALLOWED (no endpoint, a disabled one, or a schema that is too large),
 * NOT_INSTALLED, UNAVAILABLE (the compute does not start, or too many databases are being read).
 */
export async function readSchema(
  context: Context,
  { pg_version: pgVersion }: Project,
  branch: Branch,
  database: string,
  signal: AbortSignal,
): Promise<string> {
  const address = await awakeDatabase(context, branch, database, signal)
  const password = context.secrets.stores.admin(address.store)[0]
  return dumpSchema(address, { payer: branch, password, database, pgVersion, signal })
}

/** The numbers of rows of the tables in a database of a branch. Errors: as `readSchema`. */
export async function readRowCounts(
  context: Context,
  branch: Branch,
  database: string,
  signal: AbortSignal,
): Promise<RowCounts> {
  const address = await awakeDatabase(context, branch, database, signal)
  // By the name that keeps its compute awake.
  const session = { database, purpose: 'branch', timeoutMs: COUNT_TIMEOUT_MS }
  return withPlace(branch, signal, () =>
    withAdminSession(address, context.secrets.stores, session, (each) => countRows(each, signal)).catch(
      (cause: unknown) => {
        throw new AppError('UNAVAILABLE', 'The rows could not be counted at the compute. Try again.', { cause })
      },
    ),
  )
}

/** The address of a branch's compute, which runs and has this database. Wakes an idle endpoint. */
async function awakeDatabase(
  context: Context,
  { id: branchId }: Branch,
  database: string,
  signal: AbortSignal,
): Promise<ComputeAddress> {
  let gone: { id: string | undefined; error: unknown } | undefined
  for (let turn = 0; turn < TRIES; turn++) {
    const endpoint = await awake(context, branchId, gone?.id, signal)
    const address = computeAddress(endpoint)
    if (!address) continue
    try {
      await requireDatabase(address, context.secrets.stores, database)
      return address
    } catch (error) {
      if (error instanceof AppError) throw error
      gone = { id: endpoint.compute_id ?? undefined, error }
    }
  }
  throw new AppError('UNAVAILABLE', 'The compute of the branch does not answer. Try again.', { cause: gone?.error })
}

/**
 * The difference between the schemas of a database on `base` and `branch`, as `diff -u` prints it. Errors: as
 * `readSchema`.
 */
export async function compareSchemas(
  context: Context,
  project: Project,
  { base, branch }: { base: Branch; branch: Branch },
  database: string,
  signal: AbortSignal,
): Promise<string> {
  const failed = new AbortController()
  const either = AbortSignal.any([signal, failed.signal])
  const side = async (of: Branch) => ({
    label: `${of.name} (${of.id})`,
    text: await readSchema(context, project, of, database, either),
  })
  try {
    const [before, after] = await Promise.all([side(base), side(branch)])
    return await unifiedDiff(before, after)
  } finally {
    // If one side fails, stop the other.
    failed.abort()
  }
}

/** The branch's endpoint, active with a compute other than `deadComputeId`. */
async function awake(
  { catalog, config }: Context,
  branchId: string,
  deadComputeId: string | undefined,
  signal: AbortSignal,
): Promise<PlacedEndpoint> {
  const endpoint = await findBranchEndpoint(catalog, branchId)
  if (!endpoint)
    throw new AppError(
      'NOT_ALLOWED',
      `The branch ${branchId} has no compute to read its database with. Create an endpoint for it first.`,
    )
  const operationId = await requestStart(catalog, endpoint, deadComputeId)
  if (operationId === undefined) return (await findBranchEndpoint(catalog, branchId)) ?? endpoint
  const [operation] = await awaitOperations(catalog, [operationId], config.wakeTimeout * 1000, signal)
  const started = await findBranchEndpoint(catalog, branchId)
  if (operation?.status === 'finished' && started?.current_state === 'active') return started
  throw new AppError('UNAVAILABLE', `The compute of the branch did not start: ${operation?.error ?? 'not in time'}.`)
}

/** Neap's own database and the template databases cannot be read. */
async function requireDatabase(address: ComputeAddress, secrets: StoreSecrets, name: string): Promise<void> {
  const found = await withAdminSession(address, secrets, { purpose: 'schema' }, (session) =>
    session.query(
      `select from pg_database where datname = $1 and datallowconn and not datistemplate and datname <> 'neap'`,
      [name],
    ),
  )
  if (found.length === 0) throw new AppError('NOT_FOUND', `database ${name} not found`)
}
