import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { endOf } from '../backends/local/logs.ts'
import { messageOf, UsageError } from '../errors.ts'

/** A part of Neap as a child process, started again whenever it ends by itself. */
export interface Child {
  readonly name: string
  pid(): number | undefined
  /** Ends it: asks, and after the time kills. Resolves when it is gone. */
  stop(): Promise<void>
}

export interface ChildOptions {
  readonly name: string
  readonly entry: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly logFile: string
  /** Told of every start, the first one too. */
  readonly onStart: (pid: number) => void
  readonly onRestart: (name: string, why: string) => void
}

const STOP_MS = 15_000
const SHORTEST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1_000
const STEADY_MS = 10_000

/** Starts a part and resolves when it says that it is ready. Errors: UsageError with the end of its log when it ends before. */
export async function startChild(options: ChildOptions): Promise<Child> {
  let stopping = false
  let isReady = false
  let pause = SHORTEST_PAUSE_MS
  let timer: NodeJS.Timeout | undefined
  let current = launch()
  const first = current
  isReady = await Promise.race([once(first, 'message').then(() => true), once(first, 'exit').then(() => false)])
  if (!isReady) {
    throw new UsageError(`neap ${options.name} did not start: ${lastLine(options.logFile)} (log: ${options.logFile})`)
  }

  /** Where the machine has no file or process left for it, a moment later there may be one. */
  function launchAgain(why: string): void {
    if (stopping || !isReady) return
    options.onRestart(options.name, why)
    timer = setTimeout(() => {
      try {
        current = launch()
      } catch (error) {
        pause = LONGEST_PAUSE_MS
        launchAgain(messageOf(error))
      }
    }, pause)
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
    child.once('error', (error) => {
      if (child.pid === undefined) launchAgain(messageOf(error))
    })
    child.once('exit', (code, signal) => {
      pause = Date.now() - begun > STEADY_MS ? SHORTEST_PAUSE_MS : Math.min(pause * 2, LONGEST_PAUSE_MS)
      launchAgain(signal ?? `exit code ${code}`)
    })
    if (child.pid) options.onStart(child.pid)
    return child
  }

  return {
    name: options.name,
    pid: () => current.pid,
    async stop() {
      stopping = true
      clearTimeout(timer)
      if (current.pid === undefined || current.exitCode !== null || current.signalCode !== null) return
      const gone = once(current, 'exit')
      current.kill('SIGTERM')
      const kill = setTimeout(() => current.kill('SIGKILL'), STOP_MS)
      await gone
      clearTimeout(kill)
    },
  }
}

/** What a part last said went wrong, for the person who started it. */
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
  return lines.at(-1) ?? 'it said nothing'
}
