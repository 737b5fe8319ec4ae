import { type ChildProcess, fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** One worker process at a time; when it is killed, a preloaded one replaces it. */
export interface Crew {
  /** The number of workers killed so far. */
  deaths(): number
  /** Resolves when this many have been killed. */
  awaitDeaths(count: number): Promise<void>
  /** Stops the worker by a signal and starts another. */
  relieve(): Promise<void>
  /** Stops all workers. Returns the unexpected exits of workers. */
  dismiss(): Promise<readonly string[]>
  /** The latest log output of the workers. */
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
