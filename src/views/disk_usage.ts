import { type Static, Type } from 'typebox'
import type { BranchSpace, ProjectSpace } from '../catalog/space.ts'

const CloneMode = Type.Union([Type.Literal('reflink'), Type.Literal('image'), Type.Literal('copy')], {
  description: 'Whether a new branch shares the blocks of its parent (in an image, or not), or is copied byte by byte',
})

const Deletion = Type.Object(
  {
    frees_bytes: Type.Optional(Type.Integer({ description: 'What its data frees on the disk, with its history' })),
    recoverable_hours: Type.Integer({ description: 'So long a deletion can be taken back; the data is freed then' }),
  },
  { description: 'What its deletion frees, and when' },
)

const space = {
  clone_mode: Type.Optional(CloneMode),
  apparent_bytes: Type.Optional(
    Type.Integer({ description: 'The sizes of all its files. Absent, as all bytes, before it was measured' }),
  ),
  own_bytes: Type.Optional(
    Type.Integer({
      description:
        'The blocks that no other has: what it adds, and what its deletion frees. ' +
        'Absent where the filesystem does not tell',
    }),
  ),
  is_exact: Type.Optional(
    Type.Boolean({ description: 'False where there are too many extents: its own blocks are at least so many' }),
  ),
  measured_at: Type.Optional(Type.String({ format: 'date-time' })),
}

export const BranchDiskUsage = Type.Object(
  {
    branch_id: Type.String(),
    ...space,
    real_bytes: Type.Optional(Type.Integer({ description: 'The blocks of its files, shared ones included' })),
    history_bytes: Type.Optional(
      Type.Integer({ description: 'Those of its own blocks that only its history has: its archived WAL and bases' }),
    ),
    deletion: Deletion,
    snapshots: Type.Object(
      { count: Type.Integer(), own_bytes: Type.Optional(Type.Integer()) },
      { description: 'Those that were taken of it; they stay when it is deleted' },
    ),
  },
  { $id: 'BranchDiskUsage' },
)

export const ProjectDiskUsage = Type.Object(
  { project_id: Type.String(), ...space, deletion: Deletion },
  { $id: 'ProjectDiskUsage' },
)

/** The bytes and times that are known. */
function known<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], null> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null)) as {
    [K in keyof T]?: Exclude<T[K], null>
  }
}

const deletionView = (bytes: number | null, hours: number) => ({
  ...(bytes !== null && { frees_bytes: bytes }),
  recoverable_hours: hours,
})

/** The space of a branch as clients see it. @param hours for how long a deletion can be taken back */
export function branchDiskUsageView(
  branchId: string,
  { snapshots, snapshot_bytes, ...measured }: BranchSpace,
  hours: number,
): Static<typeof BranchDiskUsage> {
  return {
    branch_id: branchId,
    ...known(measured),
    deletion: deletionView(measured.own_bytes, hours),
    snapshots: { count: snapshots, ...(snapshot_bytes !== null && { own_bytes: snapshot_bytes }) },
  }
}

/** The space of a project as clients see it. */
export function projectDiskUsageView(
  projectId: string,
  measured: ProjectSpace | undefined,
  hours: number,
): Static<typeof ProjectDiskUsage> {
  return {
    project_id: projectId,
    ...(measured && known(measured)),
    deletion: deletionView(measured?.own_bytes ?? null, hours),
  }
}
