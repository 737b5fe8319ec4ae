import { type Static, Type } from 'typebox'
import { findPersonByEmail } from '../../catalog/person.ts'
import { endSession, listSessions, type Session } from '../../catalog/session.ts'
import { makeSignInLink } from '../../commands/sign_in.ts'
import { AppError } from '../../errors.ts'
import { apiOrigin } from '../../public_address.ts'
import { Email } from '../person_fields.ts'
import { requireSession } from '../require_session.ts'
import { route } from '../route.ts'

const SessionView = Type.Object(
  {
    id: Type.Integer(),
    current: Type.Boolean({ description: 'The session that asks' }),
    method: Type.String({ description: 'How it was signed in: link, password, invitation, passkey or oidc' }),
    user_agent: Type.String({ description: 'As the browser calls itself' }),
    created_at: Type.String({ format: 'date-time' }),
    last_used_at: Type.String({ format: 'date-time', description: 'To the minute' }),
    last_used_from: Type.String(),
    expires_at: Type.String({ format: 'date-time', description: 'When it ends if it is not used again' }),
  },
  { $id: 'Session' },
)

function sessionView(row: Session, current: number): Static<typeof SessionView> {
  const { id, method, user_agent, created_at, last_used_at, last_used_from, expires_at } = row
  return { id, current: id === current, method, user_agent, created_at, last_used_at, last_used_from, expires_at }
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
  ofPerson: true,
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
  summary: 'Make a link that signs a person in at the console, once; only over the admin socket',
  tag: 'User',
  scope: 'admin',
  status: 201,
  query: Type.Object({
    email: Type.Optional(Type.String({ ...Email, description: 'Of the person; without it the operator' })),
  }),
  returns: Type.Object({
    url: Type.String({ description: 'A page of the console; works once' }),
    expires_at: Type.String({ format: 'date-time' }),
  }),
  errors: ['NOT_FOUND'],
}).handle(async ({ query: { email } }, { db, caller, account, config }) => {
  if (caller.credential.kind !== 'admin_socket')
    throw new AppError('FORBIDDEN', 'Sign-in links are made on the machine that runs Neap: npx neap sign-in')
  const person = email === undefined ? account : await findPersonByEmail(db, email)
  if (!person) throw new AppError('NOT_FOUND', `there is no person with the email ${email}`)
  const { token, expires_at } = await makeSignInLink(db, person.id)
  // Browsers send no fragment to servers: the token is in no log (RFC 3986, section 3.5).
  return { url: `${apiOrigin(config)}/#sign-in=${token}`, expires_at }
})
