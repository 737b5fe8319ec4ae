import { Type } from 'typebox'
import { listAudit } from '../../catalog/audit.ts'
import { route } from '../route.ts'

const AuditEntry = Type.Object(
  {
    id: Type.Integer(),
    created_at: Type.String({ format: 'date-time' }),
    request_id: Type.String({ format: 'uuid' }),
    action: Type.String({ description: 'The route, as METHOD /path' }),
    subject: Type.String({ description: 'The path that was asked for' }),
    status: Type.Integer({ description: 'The HTTP status of the answer' }),
    project_id: Type.Optional(Type.String()),
    api_key_id: Type.Optional(Type.Integer({ description: 'Absent for who administers this Neap on its machine' })),
    address: Type.String(),
  },
  { $id: 'AuditEntry' },
)

export const listAuditEntries = route('GET /audit', {
  summary: 'List who changed what, newest first',
  tag: 'Audit',
  scope: 'admin',
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    cursor: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'pagination.cursor of the page before',
      }),
    ),
    project_id: Type.Optional(Type.String({ description: 'Only requests about this project' })),
  }),
  returns: Type.Object({
    audit: Type.Array(AuditEntry),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: [],
}).handle(async ({ query }, { db, caller }) => {
  const rows = await listAudit(db, caller.account.id, query.limit ?? 100, query.cursor, query.project_id)
  const last = rows.at(-1)
  return {
    audit: rows.map(({ project_id, api_key_id, ...row }) => ({
      ...row,
      ...(project_id !== null && { project_id }),
      ...(api_key_id !== null && { api_key_id }),
    })),
    ...(last && { pagination: { cursor: String(last.id) } }),
  }
})
