import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Backend } from '../../src/backends/backend.ts'
import type { StoredBranch } from '../../src/catalog/branch.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { findBranchEndpoint } from '../../src/catalog/endpoint.ts'
import { sql } from '../../src/catalog/sql.ts'
import { withAdminSession } from '../../src/compute_admin/session.ts'
import { refOf } from '../../src/operations/request.ts'
import type { Secrets } from '../../src/secrets/secrets.ts'
import { postmastersOf } from '../processes.ts'

export interface Premises {
  readonly catalog: Catalog
  readonly backend: Backend
  readonly secrets: Secrets
  readonly dataDir: string
  readonly runtimeDir: string
}

/** Asserts that catalog and machine agree completely. No operation may be unfinished. */
export async function assertAgreement(premises: Premises): Promise<void> {
  const { catalog, dataDir } = premises
  const directoryOf = (store: string) => join(dataDir, 'branches', store, 'pgdata')
  const catalogData = join(dataDir, 'catalog', 'pgdata')
  const served = postmastersOf(dataDir)
    .map(({ directory }) => directory)
    .filter((directory) => directory !== catalogData)
  const branches = await catalog.rows<StoredBranch & { rows: number }>(sql`
    select b.*, p.pg_version,
           (select count(*) from role where branch_id = b.id) + (select count(*) from database where branch_id = b.id)
             + (select count(*) from config_change where branch_id = b.id)
             + (select count(*) from endpoint where branch_id = b.id and deleted_at is not null) as rows
      from branch b join project p on p.id = b.project_id`)
  for (const branch of branches) {
    assert.equal(branch.pending_state, null, `${branch.id} is going nowhere`)
    assert.equal(branch.restores, null, `${branch.id} is to become nothing`)
    if (!branch.stored) assertGone(premises, branch)
    else if (branch.current_state === 'ready' && !branch.deleted_at)
      assert.ok(existsSync(directoryOf(branch.store_id)), `${branch.id} has its data`)
    if (!branch.deleted_at) await assertEndpoint(premises, branch, served.includes(directoryOf(branch.store_id)))
  }
  // One postmaster per directory, and only computes that the catalog has; a failed deletion may have left its own.
  assert.equal(new Set(served).size, served.length)
  const known = await catalog.rows<{ store_id: string }>(
    sql`select b.store_id from endpoint e join branch b on b.id = e.branch_id where e.current_state = 'active'`,
  )
  const directories = new Set(known.map(({ store_id }) => directoryOf(store_id)))
  assert.deepEqual(
    served.filter((directory) => !directories.has(directory)),
    [],
  )
}

function assertGone({ dataDir, runtimeDir }: Premises, branch: StoredBranch & { rows: number }): void {
  const places = [
    join(dataDir, 'branches', branch.store_id),
    join(dataDir, 'logs', branch.store_id),
    join(runtimeDir, `b${branch.store_number.toString(36)}`),
  ]
  assert.deepEqual(
    places.filter((place) => existsSync(place)),
    [],
    `directories are left of ${branch.id}`,
  )
  assert.equal(branch.rows, 0, `rows are left of ${branch.id}`)
}

async function assertEndpoint({ catalog, backend, secrets }: Premises, branch: StoredBranch, runs: boolean) {
  const endpoint = await findBranchEndpoint(catalog, branch.id)
  if (!endpoint) return
  const { id, current_state, pending_state, holding_operation_id } = endpoint
  assert.deepEqual([pending_state, holding_operation_id], [null, null], `${id} is at rest`)
  assert.equal(current_state === 'active', runs, `${id} is ${current_state}`)
  const compute = await backend.findCompute(refOf(branch))
  assert.deepEqual(
    [endpoint.compute_host, endpoint.compute_port, endpoint.compute_pid],
    compute ? [compute.address.host, compute.address.port, compute.pid] : [null, null, null],
  )
  if (compute)
    await withAdminSession(compute.address, secrets.stores, { purpose: 'test' }, (session) => session.query('select 1'))
}
