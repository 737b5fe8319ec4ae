import { Type } from 'typebox'
import type { MemberRole } from '../catalog/person.ts'
import { MAX_PASSWORD, MIN_PASSWORD } from '../commands/password.ts'
import { AppError } from '../errors.ts'

/* Fields about persons, in the bodies of several routes. */

/** An email as people write it: one @, no spaces. Whether letters arrive there is not checked: Neap sends none. */
const EMAIL = '^[!-?A-~\\u00a1-\\ud7ff]{1,64}@[!-?A-~\\u00a1-\\ud7ff]{1,190}$'
const MAX_EMAIL = 254
export const Email = Type.String({ maxLength: MAX_EMAIL, pattern: EMAIL })
export const Name = Type.String({ minLength: 1, maxLength: 64 })
export const Password = Type.String({ minLength: 1, maxLength: MAX_PASSWORD })
export const NewPassword = Type.String({
  minLength: 1,
  maxLength: MAX_PASSWORD,
  description: `At least ${MIN_PASSWORD} characters`,
})
export const Role = Type.Union([Type.Literal('admin'), Type.Literal('editor'), Type.Literal('viewer')])
/**
 * A role or an email in a body of the public API, whose clients know other values: those are well-formed, and refused
 * with 422. Errors: NOT_ALLOWED.
 */
export const AskedRole = Type.String({ maxLength: 100, description: 'admin, editor or viewer' })
export function requireRole(asked: string): MemberRole {
  if (asked === 'admin' || asked === 'editor' || asked === 'viewer') return asked
  throw new AppError('NOT_ALLOWED', `role may be admin, editor or viewer here, not ${asked}`)
}

export const AskedEmail = Type.String({ maxLength: 1_000 })
export function requireEmail(asked: string): string {
  if (asked.length <= MAX_EMAIL && new RegExp(EMAIL).test(asked)) return asked
  throw new AppError('NOT_ALLOWED', 'email must be an email address: a name, @ and a host')
}

/** The token of a link. */
export const Token = Type.String({ minLength: 1, maxLength: 100 })
