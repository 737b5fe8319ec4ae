import type { Branch } from '../catalog/branch.ts'
import type { Database } from '../catalog/database.ts'
import type { Endpoint } from '../catalog/endpoint.ts'
import type { Operation } from '../catalog/operation.ts'
import type { Role } from '../catalog/role.ts'

/* What commands return: a row as it was changed, and the operations that the change queued. */

/** A branch and the operations that were queued for it. */
export interface ChangedBranch {
  readonly branch: Branch
  readonly operations: readonly Operation[]
}

/** An endpoint and the operations that were queued for it. */
export interface ChangedEndpoint {
  readonly endpoint: Endpoint
  readonly operations: readonly Operation[]
}

/** A role, its password if newly generated, and the operations that were queued for it. */
export interface ChangedRole {
  readonly role: Role
  readonly password?: string
  readonly operations: readonly Operation[]
}

/** A database and the operations that were queued for it. */
export interface ChangedDatabase {
  readonly database: Database
  readonly operations: readonly Operation[]
}
