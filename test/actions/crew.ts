import { type ChildProcess, fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** One worker process at a time; when it is killed another takes its place, loaded already. */
export interface Crew {
  /** How many workers were killed so far. */
  deaths(): number
  /** Resolves when so many were killed. */
  awaitDeaths(count: number): Promise<void>
  /** Ends the worker as a signal would, and has another begin. */
  relieve(): Promise<void>
  /** Ends all, and answers which workers ever ended otherwise than by being killed or told to. */
  dismiss(): Promise<readonly string[]>
  /** What the workers logged lately. */
  log(): string
}

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url))

export function startCrew(env: Record<string, string>, logFile: string): Crew {
  const log = openSync(logFile, 'a')
  const wrong: string[] = []
  const events = new EventEmitter()
  let killed = 0
  let dismissed = false
  let reserve = hire()
  let atWork = promote()

  function hire(): ChildProcess {
    return fork(WORKER, { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', log, 'ipc'] })
  }

  function promote(): ChildProcess {
    const worker = reserve
    worker.send('begin')
    worker.once('exit', (code, signal) => {
      if (signal === 'SIGKILL') killed++
      else if (code !== 0) wrong.push(`a worker ended with ${code ?? signal}`)
      if (!dismissed) atWork = promote()
      events.emit('exit')
    })
    reserve = hire()
    return worker
  }

  return {
    deaths: () => killed,
    async awaitDeaths(count) {
      while (killed < count) await once(events, 'exit')
    },
    log: () => readFileSync(logFile, 'utf8').slice(-6_000),
    async relieve() {
      const exit = once(atWork, 'exit')
      atWork.kill('SIGTERM')
      await exit
    },
    async dismiss() {
      dismissed = true
      const exits = [atWork, reserve].map((worker) => once(worker, 'exit'))
      atWork.kill('SIGTERM')
      reserve.disconnect()
      await Promise.all(exits)
      closeSync(log)
      return wrong
    },
  }
}
