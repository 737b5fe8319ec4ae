/* What this browser keeps of each branch: the text for as long as its tab, what was run for longer. */

const MAX_ENTRIES = 100
const MAX_TEXT = 20_000

export interface PastRun {
  readonly sql: string
  readonly at: string
}

const textKey = (branchId: string): string => `neap.sql.text.${branchId}`
const historyKey = (branchId: string): string => `neap.sql.history.${branchId}`

export const keptText = (branchId: string): string => sessionStorage.getItem(textKey(branchId)) ?? ''

export function keepText(branchId: string, text: string): void {
  try {
    sessionStorage.setItem(textKey(branchId), text)
  } catch {
    // The storage is full: the text stays in the page.
  }
}

export function pastRuns(branchId: string): PastRun[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(historyKey(branchId)) ?? '[]')
    return Array.isArray(kept) ? kept.filter(isPastRun) : []
  } catch {
    return []
  }
}

/** Keeps what was run, unless it is long or may hold a password. */
export function keepRun(branchId: string, sql: string): void {
  if (sql.length > MAX_TEXT || /password/i.test(sql)) return
  const others = pastRuns(branchId).filter((each) => each.sql !== sql)
  const next = [{ sql, at: new Date().toISOString() }, ...others].slice(0, MAX_ENTRIES)
  try {
    localStorage.setItem(historyKey(branchId), JSON.stringify(next))
  } catch {
    localStorage.removeItem(historyKey(branchId))
  }
}

export const forgetRuns = (branchId: string): void => localStorage.removeItem(historyKey(branchId))

function isPastRun(value: unknown): value is PastRun {
  const { sql, at } = (value ?? {}) as Partial<PastRun>
  return typeof sql === 'string' && typeof at === 'string'
}
