import { type Static, Type } from 'typebox'
import type { Person } from '../../catalog/person.ts'
import { endSession, listSessions, type Session } from '../../catalog/session.ts'
import { makeSignInLink } from '../../commands/sign_in.ts'
import { AppError } from '../../errors.ts'
import { apiOrigin } from '../../public_address.ts'
import { type Caller, route } from '../route.ts'

const SessionView = Type.Object(
  {
    id: Type.Integer(),
    current: Type.Boolean({ description: 'The session that asks' }),
    user_agent: Type.String({ description: 'As the browser calls itself' }),
    created_at: Type.String({ format: 'date-time' }),
    last_used_at: Type.String({ format: 'date-time', description: 'To the minute' }),
    last_used_from: Type.String(),
    expires_at: Type.String({ format: 'date-time', description: 'When it ends if it is not used again' }),
  },
  { $id: 'Session' },
)

function sessionView(row: Session, current: number): Static<typeof SessionView> {
  const { id, user_agent, created_at, last_used_at, last_used_from, expires_at } = row
  return { id, current: id === current, user_agent, created_at, last_used_at, last_used_from, expires_at }
}

function requireSession({ credential }: Caller): { readonly id: number; readonly person: Person } {
  if (credential.kind === 'session') return credential
  throw new AppError('FORBIDDEN', 'Only people who have signed in at the console have sessions.')
}

export const listOwnSessions = route('GET /users/me/sessions', {
  summary: 'List the sessions of the person who asks, the last used first',
  tag: 'User',
  returns: Type.Object({ sessions: Type.Array(SessionView) }),
  errors: [],
}).handle(async (_request, { db, caller }) => {
  const { id, person } = requireSession(caller)
  return { sessions: (await listSessions(db, person.id)).map((session) => sessionView(session, id)) }
})

export const endOwnSession = route('DELETE /users/me/sessions/:session_id', {
  summary: 'End a session of the person who asks, at once',
  tag: 'User',
  scope: 'read',
  changesKeys: true,
  params: Type.Object({ session_id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) }),
  returns: Type.Object({}),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, { db, caller }) => {
  const { person } = requireSession(caller)
  if (!(await endSession(db, person.id, params.session_id)))
    throw new AppError('NOT_FOUND', `session ${params.session_id} not found`)
  return {}
})

export const createSignInLink = route('POST /sign_in_links', {
  summary: "Make a link that signs the account's first member in at the console, once; only over the admin socket",
  tag: 'User',
  scope: 'admin',
  status: 201,
  returns: Type.Object({
    url: Type.String({ description: 'A page of the console; works once' }),
    expires_at: Type.String({ format: 'date-time' }),
  }),
  errors: [],
}).handle(async (_request, { db, caller, account, config }) => {
  if (caller.credential.kind !== 'admin_socket')
    throw new AppError('FORBIDDEN', 'Sign-in links are made on the machine that runs Neap: npx neap sign-in')
  const { token, expires_at } = await makeSignInLink(db, account.id)
  // Browsers send no fragment to servers: the token is in no log (RFC 3986, section 3.5).
  return { url: `${apiOrigin(config)}/#sign-in=${token}`, expires_at }
})
