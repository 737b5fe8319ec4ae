import { performance } from 'node:perf_hooks'
import { readColumns, readReport, readRow, readTag } from './fields.ts'
import type { ServerMessage } from './messages.ts'

export interface Column {
  readonly name: string
  /** The table and the number of the column there; 0 where it is computed. */
  readonly table_oid: number
  readonly column_number: number
  readonly type_oid: number
  readonly type_modifier: number
}

/** An error or a notice of Postgres, with the names that the manual gives to its fields. */
export interface Report {
  readonly severity: string
  /** The SQLSTATE. */
  readonly code: string
  readonly message: string
  readonly detail?: string
  readonly hint?: string
  readonly where?: string
  readonly schema?: string
  readonly table?: string
  readonly column?: string
  readonly constraint?: string
  /** Where in the text, in characters (code points) from 1. */
  readonly position?: number
}

/** The events, in order: one line of the answer each. */
export type SqlEvent =
  /** The session is there, and the text was sent. */
  | { readonly type: 'begin' }
  | { readonly type: 'columns'; readonly columns: readonly Column[] }
  | { readonly type: 'rows'; readonly rows: readonly (readonly (string | null)[])[] }
  | {
      readonly type: 'complete'
      readonly tag: string
      /** Rows that the statement returned. */
      readonly rows: number
      /** Whether some of them were left out, being over a limit. */
      readonly truncated: boolean
      readonly ms: number
    }
  | ({ readonly type: 'notice' | 'error' } & Report)
  | { readonly type: 'end'; readonly ms: number }

export interface AnswerLimits {
  /** Rows in all. */
  readonly maxRows: number
  /** Bytes of rows and notices in all, as Postgres sends them. */
  readonly maxBytes: number
}

interface Answer {
  /** The events of some messages. */
  read(messages: Iterable<ServerMessage>): SqlEvent[]
  readonly isDone: boolean
  /** Postgres waits for data of a COPY … FROM STDIN. */
  readonly wantsCopy: boolean
}

/**
 * Turns the messages of a simple query into events. Rows over a limit are dropped and counted, so that the statements
 * have the same effect with any limit.
 */
export function createAnswer({ maxRows, maxBytes }: AnswerLimits): Answer {
  const began = performance.now()
  let statementBegan = began
  let rowsLeft = maxRows
  let bytesLeft = maxBytes
  let rows = 0
  let truncated = false
  let isDone = false
  let wantsCopy = false
  let batch: (string | null)[][] = []
  let events: SqlEvent[] = []

  function flush(): void {
    if (batch.length > 0) events.push({ type: 'rows', rows: batch })
    batch = []
  }

  function row({ body, bytes }: ServerMessage): void {
    rows++
    bytesLeft -= bytes
    if (body === undefined || rowsLeft <= 0 || bytesLeft < 0) {
      truncated = true
      return
    }
    rowsLeft--
    batch.push(readRow(body))
  }

  function complete(tag: string): void {
    const now = performance.now()
    flush()
    events.push({ type: 'complete', tag, rows, truncated, ms: rounded(now - statementBegan) })
    statementBegan = now
    rows = 0
    truncated = false
  }

  function other({ type, body = Buffer.alloc(0), bytes }: ServerMessage): void {
    flush()
    switch (type) {
      case 'T':
        events.push({ type: 'columns', columns: body.length > 0 ? readColumns(body) : [] })
        break
      case 'C':
        complete(readTag(body))
        break
      case 'N':
        bytesLeft -= bytes
        if (bytesLeft >= 0) events.push({ type: 'notice', ...readReport(body) })
        break
      case 'E':
        events.push({ type: 'error', ...readReport(body) })
        break
      case 'G':
        wantsCopy = true
        break
      case 'H':
        truncated = true
        break
      case 'Z':
        isDone = true
        events.push({ type: 'end', ms: rounded(performance.now() - began) })
    }
  }

  return {
    read(messages) {
      events = []
      wantsCopy = false
      for (const message of messages) {
        if (message.type === 'D') row(message)
        // Data of a COPY … TO STDOUT belong into a file: psql writes one.
        else if (message.type !== 'd') other(message)
      }
      flush()
      return events
    },
    get isDone() {
      return isDone
    },
    get wantsCopy() {
      return wantsCopy
    },
  }
}

const rounded = (ms: number): number => Math.round(ms * 10) / 10
