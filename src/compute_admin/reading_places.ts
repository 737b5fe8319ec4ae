import { AppError } from '../errors.ts'

/**
 * Limits of concurrent reads of whole databases in one process: in total, per account, and per project (a comparison
 * takes two). A tenant can make each last half a minute, and must leave room for others.
 */
const MAX_AT_ONCE: Limits = { all: 8, account_id: 4, project_id: 2 }
/** Limits of the reads that wait for a place. */
const MAX_WAITING: Limits = { all: 256, account_id: 128, project_id: 32 }
/** Milliseconds. */
const MAX_WAIT = 30_000

type Limits = Readonly<Record<'all' | keyof ReadPayer, number>>

const running = new Set<ReadPayer>()
/** The reads that wait, in the order they came, each with the function that starts it. */
const waiting = new Map<ReadPayer, () => void>()

/** The project and account of a read. */
export type ReadPayer = Readonly<Record<'account_id' | 'project_id', string>>

/**
 * Reads a whole database (its schema, or the numbers of its rows) once a place is free, within half a minute. Reads
 * start in the order they came, but pass those of an account or a project at its limit.
 * Errors: UNAVAILABLE (no place was free in time, too many wait, or `signal` aborted the wait), and those of `read`.
 */
export async function withPlace<T>(given: ReadPayer, signal: AbortSignal, read: () => Promise<T>): Promise<T> {
  const payer = { ...given }
  await takePlace(payer, signal)
  try {
    return await read()
  } finally {
    running.delete(payer)
    servePlaces()
  }
}

async function takePlace(payer: ReadPayer, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const leave = () => {
    waiting.delete(payer)
    const most = reachedLimit(payer, running, MAX_AT_ONCE) ?? MAX_AT_ONCE.all
    const reason = signal.aborted
      ? 'The database was not read'
      : `${most} databases are being read, as many as may be at once`
    reject(new AppError('UNAVAILABLE', `${reason}. Try again.`))
  }
  const timer = setTimeout(leave, MAX_WAIT)
  signal.addEventListener('abort', leave)
  try {
    waiting.set(payer, resolve)
    servePlaces()
    const mayWait = !signal.aborted && reachedLimit(payer, waiting.keys(), MAX_WAITING) === undefined
    if (waiting.has(payer) && !mayWait) leave()
    await promise
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}

/** Starts the waiting reads that have a place. */
function servePlaces(): void {
  for (const [payer, start] of waiting) {
    if (reachedLimit(payer, running, MAX_AT_ONCE) !== undefined) continue
    waiting.delete(payer)
    running.add(payer)
    start()
  }
}

/** The first of these limits that the other reads leave no room within; undefined if there is room. */
function reachedLimit(payer: ReadPayer, others: Iterable<ReadPayer>, limits: Limits): number | undefined {
  const reads = [...others].filter((other) => other !== payer)
  const [key] = (['all', 'account_id', 'project_id'] as const).filter(
    (of) => reads.filter((other) => of === 'all' || other[of] === payer[of]).length >= limits[of],
  )
  return key && limits[key]
}
