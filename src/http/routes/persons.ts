import { Type } from 'typebox'
import { findPassword, updatePerson } from '../../catalog/person.ts'
import { changePassword, requireGoodPassword } from '../../commands/password.ts'
import { AppError } from '../../errors.ts'
import { Email, Name, NewPassword, Password } from '../person_fields.ts'
import { isFresh, requireSession } from '../require_session.ts'
import { route } from '../route.ts'

/* The changes that persons make of themselves. Each needs a session; a viewer may do it too. */

export const updateCurrentUser = route('PATCH /users/me', {
  summary: 'Change the name or the email of the person who asks',
  tag: 'User',
  scope: 'read',
  changesKeys: true,
  ofPerson: true,
  body: Type.Object({ user: Type.Object({ name: Type.Optional(Name), email: Type.Optional(Email) }) }),
  returns: Type.Object({ user: Type.Object({ id: Type.String(), name: Type.String(), email: Type.String() }) }),
  errors: ['CONFLICT'],
}).handle(async ({ body }, { db, caller }) => {
  const { person } = requireSession(caller)
  const changed = await updatePerson(db, person.id, body.user)
  if (!changed) throw new AppError('CONFLICT', 'Another person signs in with this email. Choose another.')
  const { id, name, email } = changed
  return { user: { id, name, email } }
})

export const getOwnPassword = route('GET /users/me/password', {
  summary: 'Whether the person who asks has a password, and since when',
  tag: 'User',
  returns: Type.Object({
    is_set: Type.Boolean(),
    changed_at: Type.Optional(Type.String({ format: 'date-time' })),
    needs_current: Type.Boolean({
      description: 'A new one takes the current one; false shortly after a sign-in by link',
    }),
  }),
  errors: [],
}).handle(async (_request, { db, caller }) => {
  const { person, session } = requireSession(caller)
  const stored = await findPassword(db, person.id)
  return {
    is_set: stored !== undefined,
    ...(stored && { changed_at: stored.changed_at }),
    needs_current: !(session.method !== 'password' && isFresh(session)),
  }
})

export const setOwnPassword = route('POST /users/me/password', {
  summary: 'Set the password of the person who asks, and end his other sessions',
  tag: 'User',
  scope: 'read',
  changesKeys: true,
  ofPerson: true,
  takesPassword: true,
  body: Type.Object({ current_password: Type.Optional(Password), new_password: NewPassword }),
  returns: Type.Object({ changed: Type.Boolean() }),
  errors: ['NOT_ALLOWED', 'CONFLICT'],
})
  // Outside the transaction: hashing waits its turn.
  .ask(async ({ body }, { db, caller, clientAddress: address, passwords }) => {
    const { person, session } = requireSession(caller)
    requireGoodPassword(body.new_password, person)
    const stored = await findPassword(db, person.id)
    if (session.method === 'password' || !isFresh(session)) {
      if (!stored) throw new AppError('FORBIDDEN', 'Sign in again by a link, then set a password within 15 minutes.')
      if (body.current_password === undefined)
        throw new AppError('FORBIDDEN', 'Give the current password, or sign in again by a link.')
      if (!(await passwords.matches({ address, name: person.id }, body.current_password, stored.hash)))
        throw new AppError('FORBIDDEN', 'The current password is wrong. Try again, or sign in again by a link.')
    }
    return { before: stored?.hash, hash: await passwords.hash(address, body.new_password) }
  })
  .handle(async (_request, { db, caller }, hashes) => {
    const { id, person } = requireSession(caller)
    await changePassword(db, person.id, id, hashes)
    return { changed: true }
  })
