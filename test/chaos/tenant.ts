import type { Place } from '../project.ts'
import { awaitEnds, request, type World } from './world.ts'

/** Creates a separate project, for faults that a tenant causes. */
export async function newTenant(world: World, name: string): Promise<Place> {
  const made = await request(world, 'POST', '/projects', { project: { name } })
  await awaitEnds(world, made)
  const { project, branch, endpoints, connection_uris } = made.body as unknown as {
    project: { id: string }
    branch: { id: string }
    endpoints: { id: string }[]
    connection_uris: { connection_uri: string }[]
  }
  const uri = connection_uris[0]?.connection_uri ?? ''
  return { project_id: project.id, branch_id: branch.id, endpoint_id: endpoints[0]?.id ?? '', uri }
}

/** Deletes such a project and waits until its operations have ended. */
export async function removeTenant(world: World, { project_id }: Place): Promise<void> {
  await awaitEnds(world, await request(world, 'DELETE', `/projects/${project_id}`))
}
