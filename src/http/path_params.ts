import { Type } from 'typebox'

/** The parameters of paths of a project, and of a branch. */
export const ProjectParams = Type.Object({ project_id: Type.String() })
export const BranchParams = Type.Object({ project_id: Type.String(), branch_id: Type.String() })
