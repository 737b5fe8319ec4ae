import { Type } from 'typebox'
import { listAudit } from '../../catalog/audit.ts'
import { listRefusals, type RefusedAccess } from '../../catalog/refused_access.ts'
import { route } from '../route.ts'
import { KeyId } from './api_keys.ts'

const PersonName = Type.Object(
  { name: Type.String(), email: Type.String() },
  { description: 'That person, as the name and the email are now' },
)

const AuditEntry = Type.Object(
  {
    id: Type.Integer(),
    created_at: Type.String({ format: 'date-time' }),
    request_id: Type.String({ format: 'uuid', description: 'Of a login without a password: its id' }),
    action: Type.String({
      description:
        'The route, as METHOD /path; or passwordless_login.asked, .approved or .refused, ' +
        'of which the address is that of the client that logs in',
    }),
    subject: Type.String({ description: 'The path that was asked for; of a login, its endpoint and role' }),
    status: Type.Integer({ description: 'The HTTP status of the answer' }),
    project_id: Type.Optional(Type.String()),
    api_key_id: Type.Optional(Type.Integer({ description: 'Absent for sessions and the administration socket' })),
    person_id: Type.Optional(Type.String({ description: 'The person of a session' })),
    person: Type.Optional(PersonName),
    address: Type.String(),
  },
  { $id: 'AuditEntry' },
)

const Refused = Type.Object(
  {
    kind: Type.Union([Type.Literal('api_key'), Type.Literal('login'), Type.Literal('sign_in')]),
    api_key_id: Type.Optional(
      Type.Integer({ description: 'A key that is revoked or expired; absent for unknown ones' }),
    ),
    person_id: Type.Optional(Type.String({ description: 'Of a sign-in with a wrong password, a member' })),
    person: Type.Optional(PersonName),
    endpoint_id: Type.Optional(Type.String({ description: 'Of a login, where there is such an endpoint' })),
    role: Type.Optional(Type.String({ description: 'Of a login, where the endpoint has such a role' })),
    network: Type.Optional(Type.String({ description: 'From where; absent where there were too many to keep apart' })),
    count: Type.Integer(),
    first_at: Type.String({ format: 'date-time' }),
    last_at: Type.String({ format: 'date-time' }),
  },
  { $id: 'RefusedAccess' },
)

const SUBJECT_OF = {
  api_key: (subject: string) => ({ api_key_id: Number(subject) }),
  login: (subject: string) => ({ endpoint_id: subject }),
  sign_in: (subject: string) => ({ person_id: subject }),
}

function presentRefused({ kind, subject, role, network, person, ...counted }: RefusedAccess) {
  return {
    kind,
    ...(subject && SUBJECT_OF[kind](subject)),
    ...(person && { person }),
    ...(role && { role }),
    ...(network && { network }),
    ...counted,
  }
}

export const listAuditEntries = route('GET /audit', {
  summary: 'List changes, password reads, and refused keys, logins and sign-ins, newest first',
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
    api_key_id: Type.Optional(KeyId),
    person_id: Type.Optional(Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' })),
    action: Type.Optional(Type.String({ description: 'Only requests of this route, as METHOD /path' })),
    from: Type.Optional(Type.String({ format: 'date-time', description: 'Only since this moment' })),
    to: Type.Optional(Type.String({ format: 'date-time', description: 'Only before this moment' })),
  }),
  returns: Type.Object({
    audit: Type.Array(AuditEntry),
    refused: Type.Optional(
      Type.Array(Refused, {
        description:
          'With the first page of all projects: ' +
          'refused API keys, and wrong passwords at databases and at the console, of the last 90 days, ' +
          'added up, the latest first. ' +
          'Those of no account are in the list of the account that owns this Neap',
      }),
    ),
    pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
  }),
  errors: [],
}).handle(async ({ query }, { db, caller }) => {
  const { limit, cursor, project_id: projectId, api_key_id: apiKeyId, person_id: personId, action, from, to } = query
  const filter = { projectId, apiKeyId, personId, action, from, to }
  const rows = await listAudit(db, caller.account.id, limit ?? 100, cursor, filter)
  const last = rows.at(-1)
  const isFirst = cursor === undefined && Object.values(filter).every((each) => each === undefined)
  return {
    ...(isFirst && { refused: (await listRefusals(db, caller.account.id)).map(presentRefused) }),
    audit: rows.map(({ project_id, api_key_id, person_id, person, ...row }) => ({
      ...row,
      ...(project_id !== null && { project_id }),
      ...(api_key_id !== null && { api_key_id }),
      ...(person_id !== null && { person_id }),
      ...(person !== null && { person }),
    })),
    ...(last && { pagination: { cursor: String(last.id) } }),
  }
})
