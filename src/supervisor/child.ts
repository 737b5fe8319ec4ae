import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { endOf } from '../host/logs.ts'
import { type Backoff, backoffMs } from '../backoff.ts'
import { messageOf, UsageError } from '../errors.ts'
import type { BoundSocket } from './listener.ts'
import type { FromPart, ToPart } from './messages.ts'

/*
 * A part of Neap as a child process:
 *
 *   launched ──ready──▶ serving ──ends──▶ launched again, after a growing pause
 *                          └──reports that it drains──▶ leaving, until it ends; another is launched at once
 */
export interface Child {
  readonly name: string
  /** Resolves when it first reports that it is ready. Errors: UsageError with the end of its log (it ended before). */
  readonly ready: Promise<void>
  /** Ends it and its draining predecessors: requests a stop, kills after 15 seconds. Resolves when all have ended. */
  stop(): Promise<void>
}

export interface ChildOptions {
  readonly name: string
  readonly entry: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly logFile: string
  /** Restarted even if it ends before it was ever ready. */
  readonly isSpare?: boolean
  /** The listening sockets; the part is sent one whenever it asks for it. */
  readonly listeners?: readonly BoundSocket[]
  /** Called at every start, including the first. */
  readonly onStart: (pid: number) => void
  readonly onEnd: (pid: number) => void
  readonly onRestart: (name: string, why: string) => void
  readonly onDrain: (name: string) => void
}

const STOP_MS = 15_000
const RESTART: Backoff = { firstMs: 50, maxMs: 1_000 }
const STEADY_MS = 10_000

export function launchChild(options: ChildOptions): Child {
  const { promise: ready, resolve: becomeReady, reject: fail } = Promise.withResolvers<void>()
  // A caller that does not await it relies on the restart.
  ready.catch(() => {})
  /** Parts that are ready take a stop message; others get a signal. */
  const listening = new WeakSet<ChildProcess>()
  const leaving = new Set<ChildProcess>()
  let stopping = false
  let wasReady = options.isSpare ?? false
  /** Early ends in a row, plus one; Infinity after a launch that failed. */
  let failures = 1
  let timer: NodeJS.Timeout | undefined
  let current: ChildProcess | undefined
  if (options.isSpare) launchIn(0)
  else current = launch()

  /** Also after a launch that failed: the machine may lack descriptors or processes only for a moment. */
  function launchAgain(why: string): void {
    if (!wasReady)
      fail(new UsageError(`neap ${options.name} did not start: ${lastLine(options.logFile)} (log: ${options.logFile})`))
    if (stopping || !wasReady) return
    options.onRestart(options.name, why)
    launchIn(backoffMs(failures, RESTART))
  }

  function launchIn(ms: number): void {
    timer = setTimeout(() => {
      try {
        current = launch()
      } catch (error) {
        failures = Infinity
        launchAgain(messageOf(error))
      }
    }, ms)
  }

  function launch(): ChildProcess {
    const log = openSync(options.logFile, 'a', 0o600)
    // Detached, so that an interrupt from the terminal reaches the supervisor only, which stops the parts in order.
    const child = fork(options.entry, [...options.args], {
      env: options.env,
      detached: true,
      stdio: ['ignore', log, log, 'ipc'],
    })
    closeSync(log)
    const begun = Date.now()
    const { pid } = child
    child.once('error', (error) => {
      if (pid !== undefined) return
      failures = Infinity
      launchAgain(messageOf(error))
    })
    child.once('exit', (code, signal) => {
      if (pid !== undefined) options.onEnd(pid)
      if (leaving.delete(child)) return
      failures = Date.now() - begun > STEADY_MS ? 1 : failures + 1
      launchAgain(signal ?? `exit code ${code}`)
    })
    child.on('message', (message) => hear(child, message as FromPart))
    if (pid !== undefined) options.onStart(pid)
    return child
  }

  function hear(child: ChildProcess, message: FromPart): void {
    if ('wants' in message) {
      const { index } = message
      tell(child, { listener: index }, options.listeners?.[index])
    } else if ('ready' in message) {
      listening.add(child)
      wasReady = true
      becomeReady()
    } else if (child === current) {
      leaving.add(child)
      if (stopping) return
      options.onDrain(options.name)
      launchIn(0)
    }
  }

  async function end(child: ChildProcess): Promise<void> {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    if (listening.has(child)) tell(child, { stop: true })
    else child.kill('SIGTERM')
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await gone
    clearTimeout(kill)
  }

  return {
    name: options.name,
    ready,
    async stop() {
      stopping = true
      clearTimeout(timer)
      await Promise.all([...leaving, ...(current ? [current] : [])].map(end))
    },
  }
}

/** Ignores the error of a child that has ended. */
function tell(child: ChildProcess, message: ToPart, listener?: BoundSocket): void {
  child.send(message, listener?.handle, () => {})
}

/** The last message in a part's log, to show at the terminal. */
export function lastLine(file: string): string {
  const lines = endOf(file, 0).filter((line) => line !== '')
  for (const line of lines.toReversed()) {
    try {
      const { err, msg } = JSON.parse(line) as { err?: { message?: string }; msg?: string }
      return err?.message ?? msg ?? line
    } catch {
      if (line.startsWith('neap: ')) return line.slice('neap: '.length)
    }
  }
  return lines.at(-1) ?? 'no output'
}
