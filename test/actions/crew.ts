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
  replaceWorker(): Promise<void>
  /** Stops all workers. Returns the unexpected exits of workers. */
  stop(): Promise<readonly string[]>
  /** The latest log output of the workers. */
  log(): string
}

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url))

export function startCrew(env: Record<string, string>, logFile: string): Crew {
  const log = openSync(logFile, 'a')
  const wrong: string[] = []
  const events = new EventEmitter()
  let killed = 0
  let stopping = false
  let reserve = preload()
  let active = promote()

  function preload(): ChildProcess {
    return fork(WORKER, { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', log, 'ipc'] })
  }

  function promote(): ChildProcess {
    const worker = reserve
    worker.send('begin')
    worker.once('exit', (code, signal) => {
      if (signal === 'SIGKILL') killed++
      else if (code !== 0) wrong.push(`a worker ended with ${code ?? signal}`)
      if (!stopping) active = promote()
      events.emit('exit')
    })
    reserve = preload()
    return worker
  }

  return {
    deaths: () => killed,
    async awaitDeaths(count) {
      while (killed < count) await once(events, 'exit')
    },
    log: () => readFileSync(logFile, 'utf8').slice(-6_000),
    async replaceWorker() {
      const exit = once(active, 'exit')
      active.kill('SIGTERM')
      await exit
    },
    async stop() {
      stopping = true
      const exits = [active, reserve].map((worker) => once(worker, 'exit'))
      active.kill('SIGTERM')
      reserve.disconnect()
      await Promise.all(exits)
      closeSync(log)
      return wrong
    },
  }
}
