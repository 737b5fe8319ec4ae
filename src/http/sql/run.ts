import type { Duplex } from 'node:stream'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { threadCpuMs } from '../thread_cpu.ts'
import { type AnswerLimits, createAnswer, type SqlEvent } from './events.ts'
import { clientMessage, createMessageSplitter } from './messages.ts'
import { endSession } from './session.ts'

/** A longer row is left out. */
const MAX_ROW_BYTES = 4 * 2 ** 20
/** Turns of the event loop that are given away together. */
const DEBT_MS = 4
const STILL_IN_MS = 1_000

export interface Run extends AnswerLimits {
  readonly sql: string
  readonly timeoutSeconds: number
  /** Aborted when the client has left. */
  readonly gone: AbortSignal
  /** Whether the caller may still ask this. */
  readonly stillIn: () => Promise<boolean>
  /** Sessions that share half of this thread. */
  readonly atOnce: () => number
}

/**
 * Runs statements in a session and yields the answer as lines of JSON, at the pace of its reader. The session ends with
 * it; the proxy cancels the query of a client that has left.
 */
export async function* run(socket: Duplex, options: Run): AsyncGenerator<string> {
  const { sql, timeoutSeconds, gone, stillIn, atOnce } = options
  const limit = AbortSignal.timeout(timeoutSeconds * 1000)
  const access = watchAccess(stillIn)
  const stop = AbortSignal.any([gone, limit, access.ended])
  const leave = () => void socket.destroy()
  stop.addEventListener('abort', leave, { once: true })
  const split = createMessageSplitter(MAX_ROW_BYTES)
  const answer = createAnswer(options)
  let debtMs = 0
  try {
    socket.write(clientMessage('Q', `${sql}\0`))
    yield linesOf([{ type: 'begin' }])
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      const began = threadCpuMs()
      const text = linesOf(answer.read(split(chunk)))
      debtMs += (threadCpuMs() - began) * atOnce()
      if (text !== '') yield text
      if (answer.isDone) {
        endSession(socket)
        return
      }
      if (answer.wantsCopy)
        socket.write(clientMessage('f', 'COPY … FROM STDIN takes its data from a client like psql\0'))
      if (debtMs < DEBT_MS) await nextTurn()
      else await sleep(debtMs)
      if (debtMs >= DEBT_MS) debtMs = 0
    }
    if (!answer.isDone && !stop.aborted) yield linesOf([LOST])
  } catch (error) {
    if (gone.aborted) return
    if (access.ended.aborted) yield linesOf([NO_ACCESS])
    else yield linesOf([limit.aborted ? overTime(timeoutSeconds) : { ...LOST, detail: String(error) }])
  } finally {
    access.stop()
    stop.removeEventListener('abort', leave)
    if (!socket.writableEnded) socket.destroy()
  }
}

/** Asks at an interval, since a query may send no row, and its reader may take none, for as long as it lasts. */
function watchAccess(stillIn: () => Promise<boolean>): { readonly ended: AbortSignal; stop(): void } {
  const ended = new AbortController()
  let asked: Promise<void> | undefined
  const timer = setInterval(() => {
    asked ??= stillIn().then((isIn) => {
      asked = undefined
      if (!isIn) ended.abort()
    })
  }, STILL_IN_MS)
  return { ended: ended.signal, stop: () => clearInterval(timer) }
}

const NO_ACCESS = {
  type: 'error',
  severity: 'FATAL',
  code: '28000',
  message: 'Your access ended while this ran. Whether the statements took effect is not known.',
} as const satisfies SqlEvent

const LOST = {
  type: 'error',
  severity: 'FATAL',
  code: '08006',
  message: 'The connection to the compute was lost. Whether the statements took effect is not known.',
} as const satisfies SqlEvent

const overTime = (seconds: number): SqlEvent => ({
  type: 'error',
  severity: 'ERROR',
  code: '57014',
  message: `Stopped after ${seconds} s, the time limit of this request.`,
})

const linesOf = (events: readonly SqlEvent[]): string => events.map((event) => `${JSON.stringify(event)}\n`).join('')
