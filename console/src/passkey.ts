import { startAuthentication, startRegistration } from '@simplewebauthn/browser'
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/browser'

/* The browser's side of passkeys, in a chunk of its own: few visits need it. */

/** Asks an authenticator to make a passkey. */
export const createPasskey = (optionsJSON: PublicKeyCredentialCreationOptionsJSON): Promise<RegistrationResponseJSON> =>
  startRegistration({ optionsJSON }).catch(inWords)

/** Asks an authenticator to show one. */
export const showPasskey = (optionsJSON: PublicKeyCredentialRequestOptionsJSON): Promise<AuthenticationResponseJSON> =>
  startAuthentication({ optionsJSON }).catch(inWords)

/** WebAuthn names its errors for programs. */
function inWords(error: unknown): never {
  const name = error instanceof Error ? error.name : ''
  if (name === 'InvalidStateError') throw new Error('That authenticator has a passkey of yours already.')
  if (name === 'NotAllowedError' || name === 'AbortError')
    throw new Error('No passkey was given: it was cancelled, took too long, or there is none for this site.')
  throw error
}
