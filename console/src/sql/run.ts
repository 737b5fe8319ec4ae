import { useRef, useState } from 'react'
import { ApiError } from '../api.ts'
import { ask, CutOffError, type Column, type Report, type Row, type SqlPlace } from './ask.ts'

/** Between two looks at an answer that still comes. */
const SHOW_MS = 100
const MAX_ROWS = 1_000_000
const TIMEOUT_SECONDS = 600

/** What one statement answered. Its rows grow while they come. */
export interface Result {
  columns: readonly Column[] | undefined
  readonly rows: Row[]
  tag: string | undefined
  /** Rows that the statement returned, more than there are where some were left out. */
  total: number
  truncated: boolean
  ms: number
}

/** Why a text did not run to its end. The report is that of Postgres, where it is its error. */
export interface RunError {
  readonly title: string
  readonly message: string
  readonly report?: Report
}

export interface Answer {
  readonly results: readonly Result[]
  readonly notices: readonly Report[]
  readonly error: RunError | undefined
  readonly ms: number | undefined
  readonly isRunning: boolean
}

const NONE: Answer = { results: [], notices: [], error: undefined, ms: undefined, isRunning: false }

const newResult = (): Result => ({ columns: undefined, rows: [], tag: undefined, total: 0, truncated: false, ms: 0 })

const CUT_OFF: RunError = {
  title: 'Cut off',
  message:
    'Neap went away before the answer had ended. Look whether the statements took effect before you run them again.',
}
const CANCELLED: RunError = { title: 'Cancelled', message: 'Statements that had not ended were stopped.' }

const reported = (report: Report): RunError => ({
  title: `${report.severity} ${report.code}`,
  message: report.message,
  report,
})

/** A request without an answer may have arrived. */
const unanswered = (error: Error): RunError =>
  error instanceof CutOffError || (error instanceof ApiError && error.status === 0)
    ? CUT_OFF
    : { title: 'Not run', message: error.message }

/** Runs one text after the other, each in place of the one before. */
export function useRun() {
  const [answer, setAnswer] = useState(NONE)
  const stop = useRef<AbortController>(undefined)

  async function run(place: SqlPlace, sql: string, readOnly: boolean): Promise<Answer> {
    stop.current?.abort()
    const mine = new AbortController()
    stop.current = mine
    const results: Result[] = []
    const notices: Report[] = []
    let current = newResult()
    let shownAt = 0
    let end: Partial<Answer> = {}
    const show = (isRunning: boolean): Answer => {
      const open = current.columns === undefined ? [] : [current]
      const next = { ...NONE, results: [...results, ...open], notices: [...notices], ...end, isRunning }
      if (stop.current === mine) setAnswer(next)
      shownAt = performance.now()
      return next
    }
    show(true)
    try {
      const options = { readOnly, maxRows: MAX_ROWS, timeoutSeconds: TIMEOUT_SECONDS, signal: mine.signal }
      for await (const event of ask(place, sql, options)) {
        if (event.type === 'columns') current.columns = event.columns
        else if (event.type === 'rows') for (const row of event.rows) current.rows.push(row)
        else if (event.type === 'notice') notices.push(event)
        else if (event.type === 'error') end = { ...end, error: reported(event) }
        else if (event.type === 'end') end = { ...end, ms: event.ms }
        else if (event.type === 'complete') {
          results.push(Object.assign(current, { ...event, total: event.rows, rows: current.rows }))
          current = newResult()
        }
        if (performance.now() - shownAt > SHOW_MS) show(true)
      }
      if (end.ms === undefined && end.error === undefined) end = { error: CUT_OFF }
    } catch (error) {
      end = { error: mine.signal.aborted ? CANCELLED : unanswered(error as Error) }
    }
    return show(false)
  }

  return { answer, run, cancel: () => stop.current?.abort() }
}
