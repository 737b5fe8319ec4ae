import type { PublicKeyCredentialCreationOptionsJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { type Static, Type } from 'typebox'
import { deletePasskey, listPasskeys, type Passkey, renamePasskey } from '../../catalog/passkey.ts'
import { addPasskey, checkNewPasskey, offerPasskey } from '../../commands/passkey.ts'
import { AppError } from '../../errors.ts'
import { ownerOf } from '../../network.ts'
import { Name } from '../person_fields.ts'
import { isFresh, requireSession } from '../require_session.ts'
import { type Caller, route } from '../route.ts'
import { siteOf } from '../site.ts'

/* The passkeys of the asking person (Web Authentication Level 3). */

const PasskeyView = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    host: Type.String({ description: 'The host name of the console that it is for' }),
    created_at: Type.String({ format: 'date-time' }),
    last_used_at: Type.Optional(Type.String({ format: 'date-time' })),
  },
  { $id: 'Passkey' },
)

const passkeyView = ({ id, name, rp_id, created_at, last_used_at }: Passkey): Static<typeof PasskeyView> => ({
  id,
  name,
  host: rp_id,
  created_at,
  ...(last_used_at !== null && { last_used_at }),
})

const PasskeyId = Type.Object({
  passkey_id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
})

const noPasskey = (id: string) => new AppError('NOT_FOUND', `passkey ${id} not found`)

/** A stolen session of yesterday must not add a way to sign in. Errors: FORBIDDEN. */
function requireFresh(caller: Caller) {
  const credential = requireSession(caller)
  if (!isFresh(credential.session))
    throw new AppError('FORBIDDEN', 'Sign in again, then add a passkey within 15 minutes.')
  return credential
}

export const listOwnPasskeys = route('GET /users/me/passkeys', {
  summary: 'List the passkeys of the person who asks',
  tag: 'User',
  returns: Type.Object({ passkeys: Type.Array(PasskeyView) }),
  errors: [],
}).handle(async (_request, { db, caller }) => {
  const { person } = requireSession(caller)
  return { passkeys: (await listPasskeys(db, person.id)).map(passkeyView) }
})

export const offerOwnPasskey = route('POST /users/me/passkeys/options', {
  summary: 'What a browser needs to make a passkey: the options of navigator.credentials.create()',
  tag: 'User',
  scope: 'read',
  returns: Type.Object({
    options: Type.Unsafe<PublicKeyCredentialCreationOptionsJSON>({ type: 'object', additionalProperties: true }),
  }),
  errors: ['NOT_ALLOWED'],
}).handle(async ({ headers }, { db, caller, clientAddress }) => {
  const { person } = requireFresh(caller)
  return { options: await offerPasskey(db, siteOf(headers), person, ownerOf(clientAddress)) }
})

export const addOwnPasskey = route('POST /users/me/passkeys', {
  summary: 'Store the passkey that a browser made',
  tag: 'User',
  scope: 'read',
  status: 201,
  ofPerson: true,
  body: Type.Object({
    passkey: Type.Object({ name: Name, response: Type.Unsafe<RegistrationResponseJSON>({ type: 'object' }) }),
  }),
  returns: Type.Object({ passkey: PasskeyView }),
  errors: ['NOT_ALLOWED', 'CONFLICT'],
})
  .ask(async ({ headers, body }, { db, caller }) => {
    const { person } = requireFresh(caller)
    return checkNewPasskey(db, siteOf(headers), person, body.passkey.response)
  })
  .handle(async ({ body }, { db }, checked) => ({
    passkey: passkeyView(await addPasskey(db, { ...checked, name: body.passkey.name })),
  }))

export const updateOwnPasskey = route('PATCH /users/me/passkeys/:passkey_id', {
  summary: 'Rename a passkey of the person who asks',
  tag: 'User',
  scope: 'read',
  ofPerson: true,
  params: PasskeyId,
  body: Type.Object({ passkey: Type.Object({ name: Name }) }),
  returns: Type.Object({ passkey: PasskeyView }),
  errors: ['NOT_FOUND'],
}).handle(async ({ params, body }, { db, caller }) => {
  const { person } = requireSession(caller)
  const renamed = await renamePasskey(db, person.id, params.passkey_id, body.passkey.name)
  if (!renamed) throw noPasskey(params.passkey_id)
  return { passkey: passkeyView(renamed) }
})

export const removeOwnPasskey = route('DELETE /users/me/passkeys/:passkey_id', {
  summary: 'Remove a passkey of the person who asks; it signs in no more',
  tag: 'User',
  scope: 'read',
  ofPerson: true,
  params: PasskeyId,
  returns: Type.Object({}),
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, { db, caller }) => {
  const { person } = requireSession(caller)
  if (!(await deletePasskey(db, person.id, params.passkey_id))) throw noPasskey(params.passkey_id)
  return {}
})
