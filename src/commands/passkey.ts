import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import type { Db } from '../catalog/catalog.ts'
import {
  findPasskey,
  insertChallenge,
  insertPasskey,
  type NewPasskey,
  listPasskeys,
  type Passkey,
  takeChallenge,
  usePasskey,
} from '../catalog/passkey.ts'
import type { Person } from '../catalog/person.ts'
import { AppError } from '../errors.ts'
import { newUuid } from '../ids.ts'
import { type Browser, beginSession, type SignedInSession } from './sign_in.ts'

const MAX_PASSKEYS = 20

/** The library is large, and most API processes never need it. */
const webauthn = () => import('@simplewebauthn/server')

/** The site that passkeys are for, as the browser addressed it: WebAuthn's relying party. */
export interface Site {
  readonly rpId: string
  readonly origin: string
}

/** The options by which an authenticator makes a passkey for a person. Errors: NOT_ALLOWED (there are too many). */
export async function offerPasskey(
  db: Db,
  { rpId }: Site,
  person: Person,
  network: string,
): Promise<PublicKeyCredentialCreationOptionsJSON> {
  const existing = await listPasskeys(db, person.id)
  if (existing.length >= MAX_PASSKEYS)
    throw new AppError('NOT_ALLOWED', `You have ${MAX_PASSKEYS} passkeys, as many as you may. Remove one first.`)
  const { generateRegistrationOptions } = await webauthn()
  const options = await generateRegistrationOptions({
    rpName: 'Neap',
    rpID: rpId,
    userID: Uint8Array.from(Buffer.from(person.id)),
    userName: person.email,
    userDisplayName: person.name,
    attestationType: 'none',
    excludeCredentials: existing
      .filter((each) => each.rp_id === rpId)
      .map(({ credential_id: id, transports }) => ({ id, transports: [...transports] })),
    // A passkey signs in by itself: it is found without an email, and asks for a finger, a face or a PIN.
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  })
  await insertChallenge(db, { challenge: options.challenge, personId: person.id, rpId, network })
  return options
}

const notMade = (cause?: unknown) =>
  new AppError('NOT_ALLOWED', 'The passkey could not be checked. Begin again.', { cause })

/**
 * Checks the passkey that an authenticator made, and uses up the challenge that it answers. Call it outside a
 * transaction: a challenge is used up by a wrong answer too. Errors: NOT_ALLOWED.
 */
export async function checkNewPasskey(
  db: Db,
  { rpId, origin }: Site,
  person: Person,
  response: RegistrationResponseJSON,
): Promise<Omit<NewPasskey, 'name'>> {
  const { verifyRegistrationResponse } = await webauthn()
  const { decodeAttestationObject, isoBase64URL } = await import('@simplewebauthn/server/helpers')
  const verified = await (async () => {
    // Other formats have certificates, whose check would ask addresses that the sender chose.
    const attestation = decodeAttestationObject(isoBase64URL.toBuffer(response.response.attestationObject))
    if (attestation.get('fmt') !== 'none') throw notMade()
    return verifyRegistrationResponse({
      response,
      expectedChallenge: (challenge) => takeChallenge(db, { challenge, personId: person.id, rpId }),
      expectedOrigin: origin,
      expectedRPID: rpId,
      requireUserVerification: true,
    })
  })().catch((error: unknown) => {
    throw notMade(error)
  })
  if (!verified.verified) throw notMade()
  const { credential } = verified.registrationInfo
  return {
    id: newUuid(),
    person_id: person.id,
    rp_id: rpId,
    credential_id: credential.id,
    public_key: Buffer.from(credential.publicKey),
    counter: credential.counter,
    transports: credential.transports ?? [],
  }
}

/** Stores a passkey. Errors: CONFLICT (it is stored already). */
export async function addPasskey(tx: Db, checked: NewPasskey): Promise<Passkey> {
  const made = await insertPasskey(tx, checked)
  if (!made) throw new AppError('CONFLICT', 'This passkey is stored already. Choose another authenticator.')
  return made
}

/** The options by which an authenticator shows a passkey of this site. */
export async function askForPasskey(
  db: Db,
  { rpId }: Site,
  network: string,
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  const { generateAuthenticationOptions } = await webauthn()
  const options = await generateAuthenticationOptions({ rpID: rpId, userVerification: 'required' })
  await insertChallenge(db, { challenge: options.challenge, personId: undefined, rpId, network })
  return options
}

const notKnown = (cause?: unknown) =>
  new AppError('UNAUTHENTICATED', 'This passkey is not known here. Sign in otherwise, then add it.', { cause })

/** A passkey that was shown, and the uses that its authenticator counts. */
export interface ShownPasskey {
  readonly passkey: Passkey
  readonly newCounter: number
}

/**
 * Checks the answer of an authenticator to a challenge of `askForPasskey`, which it uses up. Call it outside a
 * transaction: a challenge is used up by a wrong answer too. Errors: UNAUTHENTICATED.
 */
export async function checkPasskey(
  db: Db,
  { rpId, origin }: Site,
  response: AuthenticationResponseJSON,
): Promise<ShownPasskey> {
  const passkey = await findPasskey(db, rpId, response.id)
  if (!passkey) throw notKnown()
  const { verifyAuthenticationResponse } = await webauthn()
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response,
    expectedChallenge: (challenge) => takeChallenge(db, { challenge, personId: undefined, rpId }),
    expectedOrigin: origin,
    expectedRPID: rpId,
    credential: {
      id: passkey.credential_id,
      publicKey: Uint8Array.from(passkey.public_key),
      counter: passkey.counter,
    },
    requireUserVerification: true,
  }).catch((error: unknown) => {
    throw notKnown(error)
  })
  if (!verified) throw notKnown()
  return { passkey, newCounter: authenticationInfo.newCounter }
}

/** Begins a session by a passkey that was checked. Errors: UNAUTHENTICATED (it was removed meanwhile). */
export async function signInByPasskey(
  tx: Db,
  { passkey, newCounter }: ShownPasskey,
  browser: Browser,
): Promise<SignedInSession> {
  if (!(await usePasskey(tx, passkey, newCounter))) throw notKnown()
  return beginSession(tx, passkey.person_id, 'passkey', browser)
}
