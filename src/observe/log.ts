import { type Logger, pino } from 'pino'
import { loggedError } from './logged_error.ts'

/** What is kept of the log while its disk is full. */
const KEPT_BYTES = 2 ** 20

/** The log of one part: a line of JSON for each event, on standard error. What is logged as `err` is made fit for it first. */
export function createLog(part: string, level: string): Logger {
  const destination = pino.destination({ fd: 2, sync: true, maxLength: KEPT_BYTES })
  // A disk without room for the log is no reason to end: unheard, the event would end the process.
  destination.on('error', () => {})
  return pino(
    { level, base: { part }, timestamp: pino.stdTimeFunctions.isoTime, serializers: { err: loggedError } },
    destination,
  )
}
