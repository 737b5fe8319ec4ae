import { type Logger, pino } from 'pino'
import { loggedError } from './logged_error.ts'

/** Log output that is buffered while the disk is full. */
const KEPT_BYTES = 2 ** 20

/** The log of one part: a line of JSON for each event, on standard error. `err` is reduced by `loggedError`. */
export function createLog(part: string, level: string): Logger {
  const destination = pino.destination({ fd: 2, sync: true, maxLength: KEPT_BYTES })
  // A disk without room for the log must not end the process, as an unhandled error event would.
  destination.on('error', () => {})
  return pino(
    { level, base: { part }, timestamp: pino.stdTimeFunctions.isoTime, serializers: { err: loggedError } },
    destination,
  )
}
