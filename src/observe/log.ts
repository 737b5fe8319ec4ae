import { type Logger, pino } from 'pino'

/** The log of one part: a line of JSON for each event, on standard error. */
export function createLog(part: string, level: string): Logger {
  return pino(
    { level, base: { part }, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: true }),
  )
}
