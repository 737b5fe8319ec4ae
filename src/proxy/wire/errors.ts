/**
 * The refusals of the proxy: SQLSTATE (Postgres manual, "PostgreSQL Error Codes") and text. Class 08 marks errors that
 * no password resolves, class 28 denied access, 57P03 errors that a retry may resolve.
 */
const PROXY_ERRORS = {
  insecure: { code: '28000', text: 'connection is insecure (try using `sslmode=require`)' },
  malformed: { code: '08P01', text: 'malformed startup packet' },
  // Postgres' own text.
  early_data: {
    code: '08P01',
    text: 'received unencrypted data after SSL request',
    hint: 'This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.',
  },
  unsupported_protocol: { code: '0A000', text: 'unsupported frontend protocol' },
  too_slow: { code: '08P01', text: 'the connection was not set up within the time allowed' },
  no_user: { code: '28000', text: 'no PostgreSQL user name specified in startup packet' },
  wrong_password: { code: '28P01', text: 'password authentication failed' },
  too_many_attempts: {
    code: '53300',
    text: 'Too many attempts to log in. Please try again later.',
    hint: 'Many wrong passwords were sent for this role lately. Stop the clients that send them.',
  },
  md5_password: {
    code: '28P01',
    text: 'password authentication failed',
    hint:
      'The password of this role is stored as an md5 hash. ' +
      "Set it again after SET password_encryption = 'scram-sha-256'.",
  },
  // One text for all: it must not reveal whether the endpoint exists.
  passwordless_unavailable: {
    code: '28000',
    text: 'Passwordless login is not available here.',
    hint:
      'It needs an endpoint that exists, has passwordless_access on and allows your address. ' +
      'Without options=passwordless you can give the password of the role.',
  },
  passwordless_refused: { code: '28000', text: 'The login was refused.' },
  passwordless_expired: {
    code: '28000',
    text: 'The login was not approved in time.',
    hint: 'Connect again for another code.',
  },
  too_many_passwordless: {
    code: '53300',
    text: 'Too many logins without a password. Please try again later.',
    hint: 'Give the password of the role, or try again in ten minutes.',
  },
  address: { code: '28000', text: 'This IP address is not allowed to connect to this endpoint.' },
  no_endpoint: {
    code: '08004',
    text: 'Endpoint ID is not specified.',
    hint:
      'Connect to the host name of the endpoint with a client that sends it by TLS (SNI), ' +
      'add ?options=endpoint%3D<endpoint-id> to the connection string, ' +
      'or write endpoint=<endpoint-id>; before the password.',
  },
  inconsistent_endpoint: { code: '08004', text: 'Inconsistent project name inferred from SNI and project option.' },
  bad_endpoint: { code: '08004', text: 'Endpoint ID must contain only alphanumeric characters and hyphen.' },
  unknown_endpoint: {
    code: '08004',
    text:
      "The requested endpoint could not be found, or you don't have access to it. " +
      'Please check the provided ID and try again.',
  },
  // The code that the hosted service returns for a disabled endpoint.
  disabled_endpoint: { code: '28000', text: 'The endpoint has been disabled. Enable it using the API and retry.' },
  not_anonymized: {
    code: '28000',
    text: 'The data of the branch are not anonymized yet.',
    hint: 'POST …/anonymize starts that, GET …/anonymized_status says how far it is, or why it failed.',
  },
  quota: { code: '53400', text: 'Your account or project has exceeded a quota.' },
  start_failed: { code: '08001', text: "Couldn't connect to compute node" },
  not_in_time: {
    code: '57P03',
    text: 'The endpoint did not become ready in time.',
    hint: 'Its compute may still be starting: try again.',
  },
  catalog_away: {
    code: '57P03',
    text: 'The catalog cannot be reached, so the endpoint cannot be looked up.',
    hint: 'Try again shortly.',
  },
  too_many_connections: {
    code: '53300',
    text: 'The proxy has as many connections open as it may.',
    hint: 'Close some, or start Neap with a higher limit of open files (ulimit -n).',
  },
  // One text for both: the remedy is the same.
  too_many_at_endpoint: { code: '53300', text: 'Too many connections to this endpoint. Please try again later.' },
  too_many_new: { code: '53300', text: 'Too many connections to this endpoint. Please try again later.' },
  too_many_from_address: { code: '53300', text: 'Too many connections from this address. Please try again later.' },
  too_many_logins: { code: '53300', text: 'Too many clients are about to log in. Please try again later.' },
  unpoolable: {
    code: '0A000',
    text: 'not supported on a pooled connection',
    hint: 'Connect to the host name without -pooler.',
  },
  pool_timeout: {
    code: '53300',
    text: 'No connection of the pool became free in time.',
    hint: 'Keep transactions short, or start Neap with a larger NEAP_POOL_SIZE.',
  },
  // Postgres' own text.
  cancelled: { code: '57014', text: 'canceling statement due to user request' },
  compute_refused: { code: '08004', text: 'The compute refused the connection.' },
  compute_lost: { code: '08006', text: 'The compute was stopped in the middle of an answer.', hint: 'Connect again.' },
  stopping: { code: '57P01', text: 'terminating connection due to administrator command' },
  internal: {
    code: 'XX000',
    text: 'Something failed in the proxy that should not have.',
    hint: 'The log of the proxy says what.',
  },
} as const satisfies Record<string, { code: string; text: string; hint?: string }>

/** For sessions that end because their endpoint or project was deleted. */
export const DELETED = { detail: 'The endpoint was deleted.' } as const

export type ProxyErrorReason = keyof typeof PROXY_ERRORS

export const REASONS = Object.keys(PROXY_ERRORS) as ProxyErrorReason[]

/** An error that ends the connection and is sent to its client. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError'
  readonly reason: ProxyErrorReason
  readonly code: string
  readonly detail: string | undefined
  readonly hint: string | undefined

  /** `text` replaces the table's text to name an object, and `code` its code for an error from another source. */
  constructor(
    reason: ProxyErrorReason,
    more: {
      text?: string
      code?: string
      detail?: string | undefined
      hint?: string | undefined
      cause?: unknown
    } = {},
  ) {
    const known: { code: string; text: string; hint?: string } = PROXY_ERRORS[reason]
    super(more.text ?? known.text, { cause: more.cause })
    this.reason = reason
    this.code = more.code ?? known.code
    this.detail = more.detail
    this.hint = more.hint ?? known.hint
  }
}

/** The client has disconnected: no error can be sent to it. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
}
