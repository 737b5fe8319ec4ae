import assert from 'node:assert/strict'
import { join } from 'node:path'
import pg from 'pg'
import { type Branch, findStoredBranch, listStoredBranches, type StoredBranch } from '../../src/catalog/branch.ts'
import { notedServer } from '../../src/compute/process/server_note.ts'
import type { Catalog, Db } from '../../src/catalog/catalog.ts'
import { computeAddress } from '../../src/catalog/compute.ts'
import { findBranchEndpoint, findEndpoint, insertEndpoint, type PlacedEndpoint } from '../../src/catalog/endpoint.ts'
import { awaitOperations, type Operation } from '../../src/catalog/operation.ts'
import { deleteProject, lockProject, type Project } from '../../src/catalog/project.ts'
import { insertRole } from '../../src/catalog/role.ts'
import { sql } from '../../src/catalog/sql.ts'
import { type AdminSession, withAdminSession } from '../../src/compute_admin/session.ts'
import { newEndpointId } from '../../src/ids.ts'
import { createBranch } from '../../src/operations/create_branch.ts'
import { createTimeline } from '../../src/operations/create_timeline.ts'
import { deleteTenant } from '../../src/operations/delete_tenant.ts'
import { requestOperation } from '../../src/operations/request.ts'
import { queueStart } from '../../src/operations/start_compute.ts'
import { queueSuspend } from '../../src/operations/suspend_compute.ts'
import { scramVerifier } from '../../src/postgres/scram_verifier.ts'
import { newBranch, newProject } from '../engine/operations.ts'
import { kill, until } from '../processes.ts'
import type { Site } from './site.ts'

const PASSWORD = 'correct horse'
const PATIENCE_MS = 60_000

/**
 * Changes resources as the API does: inserting operations requires the project's lock first, to avoid deadlocks with
 * the loops.
 */
export function changing<T>(catalog: Catalog, change: (tx: Db) => Promise<T>): Promise<T> {
  return catalog.transaction(async (tx) => {
    await tx.rows(sql`select from project order by id for no key update`)
    return change(tx)
  })
}

export type World = Awaited<ReturnType<typeof createWorld>>

/** Resources for the cases: created on first use, and brought into a state by operations of the workers. */
export async function createWorld({ catalog, crew, dataDir, secrets }: Site) {
  const verifier = await scramVerifier(PASSWORD)
  /** Projects (by their first branch) and branches that cases have created and no longer use. */
  const projects: Branch[] = []
  const children: Branch[] = []
  let names = 0
  let homeBranch: Branch | undefined
  let targetBranch: Branch | undefined

  async function ended(operation: Operation): Promise<Operation> {
    const [end] = await awaitOperations(catalog, [operation.id], PATIENCE_MS)
    assert.ok(end?.finished_at, `${operation.action} does not end: ${JSON.stringify(end)}\n${crew.log()}`)
    return end
  }

  /** Runs an operation to prepare a case. */
  async function runOperation(request: (tx: Db) => Promise<Operation>): Promise<void> {
    const end = await ended(await changing(catalog, request))
    assert.equal(end.status, 'finished', `${end.action}: ${end.error}\n${crew.log()}`)
  }

  async function project(): Promise<Branch> {
    const stocked = projects.pop()
    if (stocked) return stocked
    const branch = await catalog.transaction(async (tx) => newBranch(tx, await newProject(tx)))
    await runOperation((tx) => requestOperation(tx, createTimeline, subjectOf(branch), {}))
    return branch
  }

  async function home(): Promise<Branch> {
    homeBranch ??= await project()
    return homeBranch
  }

  /** A branch for restores: its data may be replaced. */
  async function target(): Promise<Branch> {
    targetBranch ??= await branchOff(await home())
    return targetBranch
  }

  async function branchOff(parent: Branch): Promise<Branch> {
    let branch: Branch | undefined
    await runOperation(async (tx) => {
      const owner = await lockProject(tx, parent.account_id, parent.project_id)
      assert.ok(owner)
      branch = await newBranch(tx, owner, parent)
      return requestOperation(tx, createBranch, subjectOf(branch), { parent_id: parent.id })
    })
    return branch as Branch
  }

  async function endpointOf(db: Db, branch: Branch): Promise<PlacedEndpoint> {
    const found = await findBranchEndpoint(db, branch.id)
    const { id: branch_id, account_id, project_id } = branch
    const size = { min_cu: 0.25, max_cu: 0.25, suspend_timeout_seconds: -1, settings: {}, disabled: false, name: null }
    if (found) return found
    const { id } = await insertEndpoint(db, { id: newEndpointId(), branch_id, account_id, project_id, ...size })
    return (await findEndpoint(db, id)) as PlacedEndpoint
  }

  /** Kills the compute of an endpoint. */
  async function killCompute({ compute_store_id }: PlacedEndpoint): Promise<void> {
    await kill(notedServer(join(dataDir, 'branches', compute_store_id ?? ''))?.pid)
  }

  async function running(branch: Branch): Promise<PlacedEndpoint> {
    const endpoint = await endpointOf(catalog, branch)
    if (endpoint.current_state === 'active') return endpoint
    await runOperation((tx) => queueStart(tx, endpoint, 'request'))
    return endpointOf(catalog, branch)
  }

  async function suspended(branch: Branch): Promise<void> {
    const endpoint = await endpointOf(catalog, branch)
    if (endpoint.current_state === 'active') await runOperation((tx) => queueSuspend(tx, endpoint, 'request'))
  }

  async function atCompute<T>(branch: Branch, work: (session: AdminSession) => Promise<T>): Promise<T> {
    const address = computeAddress(await endpointOf(catalog, branch))
    assert.ok(address, 'no compute runs')
    return withAdminSession(address, secrets.stores, { purpose: 'test' }, work)
  }

  /** Inserts a new number through the compute, and returns it. */
  async function write(branch: Branch): Promise<number> {
    return atCompute(branch, async (session) => {
      await session.query('create table if not exists neap.public.written (number int)')
      const [row] = await session.query<{ number: number }>(
        'insert into neap.public.written select count(*) + 1 from neap.public.written returning number',
      )
      return row?.number ?? 0
    })
  }

  async function lastWritten(branch: Branch): Promise<number | undefined> {
    const [row] = await atCompute(branch, (session) =>
      session.query<{ number: number }>('select max(number) as number from neap.public.written'),
    )
    return row?.number
  }

  async function addRole(tx: Db, branch: Branch, name: string): Promise<void> {
    await insertRole(tx, { branch_id: branch.id, account_id: branch.account_id, name, password: null, verifier })
  }

  /** A client session with an open transaction. */
  async function clientInTransaction(branch: Branch): Promise<pg.Client> {
    const user = newName()
    await atCompute(branch, (session) => session.query(`create role ${user} login password '${verifier}'`))
    const { compute_address, compute_port } = await endpointOf(catalog, branch)
    const address = { host: compute_address ?? '', port: compute_port ?? 0 }
    const client = new pg.Client({ ...address, user, password: PASSWORD, database: 'postgres' })
    await client.connect()
    await client.query('begin')
    return client
  }

  /** Waits until the next worker has removed the remains of a deleted branch that a failed operation left. */
  async function awaitRemoval({ project_id, id }: Branch): Promise<void> {
    await crew.replaceWorker()
    await until('the rest of it is removed', async () => {
      const stored = await listStoredBranches(catalog, project_id)
      return !stored.some((branch) => branch.id === id || branch.deleted_at)
    })
  }

  async function deleteEverything(): Promise<void> {
    const living = sql`select id, account_id from project where deleted_at is null`
    for (const { id, account_id } of await catalog.rows<Project>(living)) {
      await runOperation(async (tx) => {
        await deleteProject(tx, id)
        return requestOperation(tx, deleteTenant, { account_id, project_id: id }, {})
      })
    }
  }

  const newName = () => `role_${++names}`
  const subjectOf = ({ account_id, project_id, id }: Branch) => ({ account_id, project_id, branch_id: id })

  return {
    catalog,
    crew,
    projects,
    children,
    ended,
    runOperation,
    project,
    home,
    target,
    branchOff,
    child: async () => children.pop() ?? branchOff(await home()),
    endpointOf,
    killCompute,
    running,
    suspended,
    atCompute,
    write,
    lastWritten,
    addRole,
    clientInTransaction,
    newName,
    subjectOf,
    read: async (branch: Branch) => (await findStoredBranch(catalog, branch.id)) as StoredBranch,
    hasRole: async (branch: Branch, name: string) =>
      (await atCompute(branch, (session) => session.query('select from pg_roles where rolname = $1', [name])))
        .length === 1,
    awaitRemoval,
    deleteEverything,
  }
}
