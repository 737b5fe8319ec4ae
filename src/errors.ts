/** Every error code, with its HTTP status and its default text. */
export const ERRORS = {
  INVALID_REQUEST: { status: 400, text: 'The request is not valid.' },
  UNAUTHENTICATED: { status: 401, text: 'The API key is missing, unknown, expired or revoked.' },
  FORBIDDEN: { status: 403, text: 'This API key may not do that.' },
  PLAN_DOES_NOT_ALLOW: { status: 403, text: 'The plan of this account does not allow that.' },
  NOT_FOUND: { status: 404, text: 'Not found.' },
  NOT_SUPPORTED: { status: 404, text: 'Neap does not have that.' },
  METHOD_NOT_ALLOWED: { status: 405, text: 'That path does not take this method.' },
  REQUEST_TIMEOUT: {
    status: 408,
    text: 'The request did not come in time: its headers within 10 seconds, all of it within 30. Send it again.',
  },
  CONFLICT: { status: 409, text: 'This conflicts with what exists.' },
  BRANCH_ALREADY_EXISTS: { status: 409, text: 'A branch with that name exists already.' },
  ROLE_ALREADY_EXISTS: { status: 409, text: 'A role with that name exists already.' },
  DATABASE_ALREADY_EXISTS: { status: 409, text: 'A database with that name exists already.' },
  ENDPOINTS_LIMIT_EXCEEDED: { status: 409, text: 'read_write endpoint already exists' },
  API_VERSION_GONE: { status: 410, text: 'Version 1 of the API is gone: use /api/v2.' },
  BODY_TOO_LARGE: { status: 413, text: 'The request body is too large.' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    text: 'Send the body as application/json or as application/x-www-form-urlencoded.',
  },
  IDEMPOTENCY_KEY_REUSED: { status: 422, text: 'This Idempotency-Key was used for another request.' },
  COMPUTE_SIZE_INCOMPLETE: { status: 422, text: 'Give both limits of the compute size, or neither.' },
  COMPUTE_SIZE_INVERTED: { status: 422, text: 'The lower limit of the compute size is over the upper one.' },
  COMPUTE_SIZE_NOT_SUPPORTED: { status: 422, text: 'A compute size is a multiple of 0.25 CU from 0.25 to 7.' },
  AUTOSCALING_RANGE_NOT_SUPPORTED: { status: 422, text: 'With autoscaling both limits lie from 1 to 7 CU.' },
  ENDPOINT_MODE_CHANGE_NOT_SUPPORTED: { status: 422, text: 'Fixed size and autoscaling cannot be exchanged.' },
  ENDPOINT_TYPE_NOT_SUPPORTED: { status: 422, text: 'Only endpoints of the type read_write are supported.' },
  SUSPEND_TIMEOUT_NOT_SUPPORTED: { status: 422, text: 'That suspend_timeout_seconds is not supported.' },
  PG_SETTINGS_NOT_ALLOWED: { status: 422, text: 'Some of these Postgres settings may not be set.' },
  PROJECTS_LIMIT_EXCEEDED: { status: 422, text: 'The account has as many projects as it may.' },
  BRANCHES_LIMIT_EXCEEDED: { status: 422, text: 'The project has as many branches as it may.' },
  ROLES_LIMIT_EXCEEDED: { status: 422, text: 'The branch has as many roles as it may.' },
  DATABASES_LIMIT_EXCEEDED: { status: 422, text: 'The branch has as many databases as it may.' },
  API_KEYS_LIMIT_EXCEEDED: { status: 422, text: 'The account has as many API keys as it may.' },
  COMPUTE_TIME_EXCEEDED: { status: 422, text: 'The project has used up its compute time.' },
  LOGICAL_SIZE_LIMIT_EXCEEDED: { status: 422, text: 'The branch is larger than it may be.' },
  WRITTEN_DATA_LIMIT_EXCEEDED: { status: 422, text: 'The project has written as much as it may.' },
  DATA_TRANSFER_LIMIT_EXCEEDED: { status: 422, text: 'The project has transferred as much as it may.' },
  WEBHOOKS_LIMIT_EXCEEDED: { status: 422, text: 'The account has as many webhooks as it may.' },
  NOT_ALLOWED: { status: 422, text: 'That is well-formed but not allowed.' },
  LOCKED: {
    status: 423,
    text: 'project already has running conflicting operations, scheduling of new ones is prohibited',
  },
  RATE_LIMITED: { status: 429, text: 'Too many requests.' },
  HEADERS_TOO_LARGE: { status: 431, text: 'The address and headers of the request are over 16 KiB together.' },
  INTERNAL: { status: 500, text: 'Something failed that should not have. The log has the request id.' },
  NOT_INSTALLED: { status: 501, text: 'This machine lacks a program that this needs.' },
  UNAVAILABLE: { status: 503, text: 'The catalog cannot be reached. Try again shortly.' },
} as const

export type ErrorCode = keyof typeof ERRORS

/** A start is refused with these when its project has used up a quota. */
export const QUOTA_ERRORS = [
  'COMPUTE_TIME_EXCEEDED',
  'WRITTEN_DATA_LIMIT_EXCEEDED',
  'DATA_TRANSFER_LIMIT_EXCEEDED',
  'LOGICAL_SIZE_LIMIT_EXCEEDED',
] as const satisfies readonly ErrorCode[]

/** An error with a message for the client. `cause` is for the log only. */
export class AppError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string = ERRORS[code].text, options: { cause?: unknown } = {}) {
    super(message, options)
    this.name = 'AppError'
    this.code = code
  }
}

/** A setting, flag or machine that does not allow Neap to continue: one line on the terminal, exit code 1. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // An AggregateError of several tried addresses has no message of its own.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ')
  return error.message
}
