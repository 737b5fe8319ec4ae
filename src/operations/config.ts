import { type Branch, setAppliedVersion } from '../catalog/branch.ts'
import type { Db } from '../catalog/catalog.ts'
import { listDatabases, listRoles } from '../catalog/role.ts'
import { applyRolesAndDatabases } from '../compute/roles.ts'
import type { AdminSession } from '../compute/session.ts'

/** Makes the roles and databases of a branch real at its running compute: the one way, for a start and for apply_config. */
export async function applyConfig(session: AdminSession, tx: Db, branch: Branch): Promise<void> {
  const roles = await listRoles(tx, branch.id)
  const databases = await listDatabases(tx, branch.id)
  await applyRolesAndDatabases(session, roles, databases)
  await setAppliedVersion(tx, branch.id, branch.config_version)
}
