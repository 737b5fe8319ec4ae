const CODE = /^(?:[0-9A-Z]{5}|[A-Z][A-Z0-9_]+)$/
const MAX_CAUSES = 5

/**
 * Returns the kind of an error, out of few: its own code or that of its nearest cause with one (Neap's, a SQLSTATE, or
 * a system error such as ENOSPC), else its name.
 */
export function codeOf(error: unknown): string {
  let cause = error
  for (let depth = 0; depth <= MAX_CAUSES && cause instanceof Error; depth++) {
    const { code } = cause as Error & { readonly code?: unknown }
    if (typeof code === 'string' && CODE.test(code)) return code
    cause = cause.cause
  }
  return error instanceof Error ? error.name : 'unknown'
}
