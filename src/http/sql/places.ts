import { AppError } from '../../errors.ts'

/** Limits of sessions at once in one process. A tenant can make each last for its whole time limit. */
const MAX_AT_ONCE = { all: 32, account: 8, project: 4, credential: 4 }

/** The account, project and credential of a session. The admin socket has no credential. */
export interface Payer {
  readonly account: string
  readonly project: string
  readonly credential: string | undefined
}

const running = new Set<Payer>()

/** How many sessions run. */
export const sessionsAtOnce = (): number => Math.max(1, running.size)

/** Takes a place. Returns a function that gives it back, once. Errors: RATE_LIMITED, UNAVAILABLE. */
export function takePlace(given: Payer): () => void {
  const payer = { ...given }
  const others = [...running]
  const refuse = (code: 'UNAVAILABLE' | 'RATE_LIMITED', most: number, of: string) => {
    throw new AppError(code, `${most} texts of SQL are running ${of}, as many as may be at once. Wait until one ends.`)
  }
  if (others.length >= MAX_AT_ONCE.all) refuse('UNAVAILABLE', MAX_AT_ONCE.all, 'in this API process')
  for (const kind of ['account', 'project', 'credential'] as const) {
    const mine = payer[kind]
    if (mine !== undefined && others.filter((other) => other[kind] === mine).length >= MAX_AT_ONCE[kind])
      refuse('RATE_LIMITED', MAX_AT_ONCE[kind], kind === 'credential' ? 'for this key or session' : `for this ${kind}`)
  }
  running.add(payer)
  return () => void running.delete(payer)
}
