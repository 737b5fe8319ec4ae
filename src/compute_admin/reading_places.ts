import { AppError } from '../errors.ts'

/**
 * Limits of concurrent reads of whole databases in one process: in total, per account, and per project (a comparison
 * takes two). A tenant can make each last half a minute, and must leave room for others.
 */
const MAX_AT_ONCE = { all: 8, account_id: 4, project_id: 2 }

const running = new Set<ReadPayer>()

/** The project and account of a read. */
export type ReadPayer = Readonly<Record<'account_id' | 'project_id', string>>

/** Reads a whole database: its schema, or the numbers of its rows. Errors: UNAVAILABLE (too many do). */
export async function withPlace<T>(given: ReadPayer, read: () => Promise<T>): Promise<T> {
  const payer = takePlace(given)
  try {
    return await read()
  } finally {
    running.delete(payer)
  }
}

function takePlace(given: ReadPayer): ReadPayer {
  const payer = { ...given }
  for (const [of, most] of Object.entries(MAX_AT_ONCE)) {
    const key = of as keyof ReadPayer
    const taken = [...running].filter((other) => of === 'all' || other[key] === payer[key])
    if (taken.length >= most)
      throw new AppError('UNAVAILABLE', `${most} databases are being read, as many as may be at once. Try again.`)
  }
  running.add(payer)
  return payer
}
