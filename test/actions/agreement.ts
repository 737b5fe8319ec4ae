import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Computes } from '../../src/compute/compute.ts'
import { type Branch, findStoredBranch } from '../../src/catalog/branch.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { findBranchEndpoint } from '../../src/catalog/endpoint.ts'
import { sql } from '../../src/catalog/sql.ts'
import type { Store } from '../../src/catalog/store.ts'
import { withAdminSession } from '../../src/compute_admin/session.ts'
import { refOf } from '../../src/operations/request.ts'
import type { Secrets } from '../../src/secrets/secrets.ts'
import { PACKED_FILE } from '../../src/storage/pack.ts'
import { postmastersOf } from '../processes.ts'

export interface Premises {
  readonly catalog: Catalog
  readonly computes: Computes
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
  const branches = await catalog.rows<Branch & { rows: number }>(sql`
    select b.*,
           (select count(*) from role where branch_id = b.id) + (select count(*) from database where branch_id = b.id)
             + (select count(*) from config_change where branch_id = b.id)
             + (select count(*) from endpoint where branch_id = b.id and deleted_at is not null) as rows
      from branch b`)
  for (const branch of branches) {
    assert.equal(branch.pending_state, null, `${branch.id} is going nowhere`)
    assert.equal(branch.restores, null, `${branch.id} is to become nothing`)
    if (branch.store_id === null) {
      assert.equal(branch.rows, 0, `rows are left of ${branch.id}`)
      continue
    }
    if (branch.current_state === 'ready' && !branch.deleted_at)
      assert.ok(existsSync(directoryOf(branch.store_id)), `${branch.id} has its data`)
    if (branch.current_state === 'archived' && !branch.deleted_at)
      assertPacked(join(dataDir, 'branches', branch.store_id))
    if (!branch.deleted_at) await assertEndpoint(premises, branch.id, served.includes(directoryOf(branch.store_id)))
  }
  await assertOnlyKnownStores(premises)
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

function assertPacked(home: string): void {
  const names = readdirSync(home).filter((name) => /pgdata|tar|pack/.test(name))
  assert.deepEqual(names, [PACKED_FILE], `${home} has its packed data, and nothing else`)
}

/** Asserts that every directory on the machine belongs to a store of the catalog, and every store to its branch. */
async function assertOnlyKnownStores({ catalog, dataDir, runtimeDir }: Premises): Promise<void> {
  const stores = await catalog.rows<Store & { of: string | null }>(
    sql`select s.*, b.id as of from store s left join branch b on b.store_id = s.id`,
  )
  for (const store of stores) assert.equal(store.of, store.branch_id, `${store.id} is its branch's`)
  const names = new Set(['catalog', ...stores.flatMap(({ id, number }) => [id, `b${number.toString(36)}`])])
  const places = [join(dataDir, 'branches'), join(dataDir, 'logs'), runtimeDir].filter((place) => existsSync(place))
  assert.deepEqual(
    places.flatMap((place) => readdirSync(place).filter((name) => !names.has(name))),
    [],
    'directories are left',
  )
}

async function assertEndpoint({ catalog, computes, secrets }: Premises, branchId: string, runs: boolean) {
  const endpoint = await findBranchEndpoint(catalog, branchId)
  const branch = await findStoredBranch(catalog, branchId)
  if (!endpoint || !branch) return
  const { id, current_state, pending_state, holding_operation_id } = endpoint
  assert.deepEqual([pending_state, holding_operation_id], [null, null], `${id} is at rest`)
  assert.equal(current_state === 'active', runs, `${id} is ${current_state}`)
  const compute = await computes.find(refOf(branch))
  assert.deepEqual(
    [endpoint.compute_address, endpoint.compute_port, endpoint.compute_id],
    compute ? [compute.address.host, compute.address.port, compute.id] : [null, null, null],
  )
  if (compute)
    await withAdminSession(compute.address, secrets.stores, { purpose: 'test' }, (session) => session.query('select 1'))
}
