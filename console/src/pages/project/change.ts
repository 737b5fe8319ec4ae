import type { ApiResponse } from '../../../../src/client.ts'

export type FullProject = ApiResponse<'GET /projects/:project_id'>['project']

export const CHANGE_PROJECT = 'PATCH /projects/:project_id'

export interface ProjectChangeProps {
  readonly project: FullProject
  readonly done: () => unknown
}
