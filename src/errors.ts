/** Every way Neap says no: the code in the body and the HTTP status it becomes. Nothing else knows HTTP statuses. */
export const ERRORS = {
  INVALID_REQUEST: { status: 400, text: 'The request is not valid.' },
  UNAUTHENTICATED: { status: 401, text: 'The API key is missing, unknown, expired or revoked.' },
  FORBIDDEN: { status: 403, text: 'This API key may not do that.' },
  NOT_FOUND: { status: 404, text: 'Not found.' },
  CONFLICT: { status: 409, text: 'This conflicts with what exists.' },
  BRANCH_ALREADY_EXISTS: { status: 409, text: 'A branch with that name exists already.' },
  ROLE_ALREADY_EXISTS: { status: 409, text: 'A role with that name exists already.' },
  DATABASE_ALREADY_EXISTS: { status: 409, text: 'A database with that name exists already.' },
  ENDPOINTS_LIMIT_EXCEEDED: { status: 409, text: 'read_write endpoint already exists' },
  API_VERSION_GONE: { status: 410, text: 'Version 1 of the API is gone: use /api/v2.' },
  BODY_TOO_LARGE: { status: 413, text: 'The request body is too large.' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, text: 'Send the body as application/json.' },
  NOT_ALLOWED: { status: 422, text: 'That is well-formed but not allowed.' },
  INTERNAL: { status: 500, text: 'Something failed that should not have. The log has the request id.' },
  UNAVAILABLE: { status: 503, text: 'The catalog cannot be reached. Try again shortly.' },
} as const

export type ErrorCode = keyof typeof ERRORS

/** An error whose message may be shown to whoever asked. `cause` is for the log only. */
export class AppError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string = ERRORS[code].text, options: { cause?: unknown } = {}) {
    super(message, options)
    this.name = 'AppError'
    this.code = code
  }
}

/** A setting, flag or machine that does not allow Neap to go on: one line for the person at the terminal, exit code 1. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
