import { type Static, Type } from 'typebox'
import type { Notice as NoticeRow } from '../catalog/notice.ts'

export const Notice = Type.Object(
  {
    id: Type.String(),
    limit: Type.String({
      description: '`host_disk`, or the name of a quota; without a host and a project it is one of the account',
    }),
    level: Type.Integer({ description: 'In percent: 60, 75, 85, 90, 95 or 100' }),
    used: Type.Number({ description: 'Bytes or seconds' }),
    most: Type.Number({ description: 'Bytes or seconds' }),
    full_at: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'When it will be used up if use goes on as in the last day; absent when it will not',
      }),
    ),
    host_id: Type.Optional(Type.String()),
    project_id: Type.Optional(Type.String()),
    branch_id: Type.Optional(Type.String()),
    noticed_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'Notice' },
)

/** A notice as clients see it. */
export function noticeView(row: NoticeRow): Static<typeof Notice> {
  const { id, name, subject_id, project_id, level, used, most, full_at, noticed_at } = row
  return {
    id,
    limit: name,
    level,
    used,
    most,
    ...(full_at !== null && { full_at }),
    ...(name === 'host_disk' && { host_id: subject_id }),
    ...(project_id !== null && { project_id }),
    ...(project_id !== null && project_id !== subject_id && { branch_id: subject_id }),
    noticed_at,
  }
}
