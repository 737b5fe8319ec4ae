import { codeOf } from './error_code.ts'

/**
 * The fields of an error that are logged in addition to its message. Other fields that libraries add may hold data of
 * the request: the text of a URL with its password, the values of a row.
 */
const TOLD = [
  'severity',
  'hint',
  'where',
  'schema',
  'table',
  'constraint',
  'errno',
  'syscall',
  'path',
  'reason',
] as const

const PASSWORD_IN_URL = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s:@/]*):\S+@/gi
const PASSWORD_IN_SQL = /(\bpassword\b[\s=:]*)'(?:[^']|'')*'/gi
const API_KEY = /\bneap_[A-Za-z0-9]{20,}/g
const MAX_CAUSES = 5
/** Limit of a text in characters: a tenant controls the length of its compute's errors. */
const MAX_TEXT_CHARACTERS = 4_000

/**
 * An error as it is logged: allowed fields only, without the passwords and keys in its texts, and its causes likewise.
 */
export function loggedError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return withoutSecrets(String(error))
  const facts = error as Error & Partial<Record<(typeof TOLD)[number] | 'detail', unknown>>
  const told = TOLD.flatMap((name) => {
    const value = facts[name]
    return value === undefined ? [] : [[name, typeof value === 'string' ? withoutSecrets(value) : value] as const]
  })
  const code = codeOf(error)
  return {
    type: error.name,
    code,
    message: withoutSecrets(error.message),
    stack: withoutSecrets(error.stack ?? ''),
    ...Object.fromEntries(told),
    // For a violated constraint it shows the row (SQLSTATE class 23).
    ...(typeof facts.detail === 'string' && !code.startsWith('23') && { detail: withoutSecrets(facts.detail) }),
    ...(error.cause !== undefined && depth < MAX_CAUSES && { cause: loggedError(error.cause, depth + 1) }),
  }
}

/** The beginning of a text, without the passwords of URLs and of SQL, and without API keys. */
export function withoutSecrets(text: string): string {
  // Cut to the limit after the replacements: a secret that is cut before lacks the end that the patterns need.
  return text
    .slice(0, 2 * MAX_TEXT_CHARACTERS)
    .replace(PASSWORD_IN_URL, '$1:…@')
    .replace(PASSWORD_IN_SQL, "$1'…'")
    .replace(API_KEY, 'neap_…')
    .slice(0, MAX_TEXT_CHARACTERS)
}
