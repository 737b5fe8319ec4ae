import type { Person } from '../catalog/person.ts'
import type { Session } from '../catalog/session.ts'
import { AppError } from '../errors.ts'
import type { Caller } from './route.ts'

/** Minutes after a sign-in in which a session may change how its person signs in. */
const FRESH_MINUTES = 15

export interface SessionCredential {
  readonly id: number
  readonly person: Person
  readonly session: Session
}

/** The session of a caller. Errors: FORBIDDEN (the caller is an API key or the administration socket). */
export function requireSession({ credential }: Caller): SessionCredential {
  if (credential.kind === 'session') return credential
  throw new AppError('FORBIDDEN', 'Only people who have signed in at the console may do that, not API keys.')
}

/** Whether the person has signed in lately, otherwise than by password. */
export const isFresh = ({ created_at }: Session): boolean =>
  Date.now() - Date.parse(created_at) < FRESH_MINUTES * 60_000
