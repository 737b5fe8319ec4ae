import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rotateLog } from '../backends/local/logs.ts'
import { type Config, configEnv } from '../config.ts'
import { messageOf } from '../errors.ts'
import { type Child, startChild } from './child.ts'
import { updateState } from './data_dir.ts'
import type { Progress } from './progress.ts'

const ENTRY = fileURLToPath(new URL('../main.ts', import.meta.url))

/** The parts that run as children of the supervisor: api, worker, proxy. */
export interface Parts {
  readonly api: Child
  readonly worker: Child
  readonly proxy: Child
}

/** Starts the parts, all at once, and notes their pids for a supervisor that comes after this one was killed. */
export async function startParts(config: Config, progress: Progress): Promise<Parts> {
  const pids = new Map<string, number>()
  const start = (name: keyof Parts): Promise<Child> =>
    startChild({
      name,
      entry: ENTRY,
      args: [name],
      env: configEnv(config),
      logFile: logOf(config.dataDir, name),
      onStart(pid) {
        pids.set(name, pid)
        try {
          updateState(config.dataDir, { pids: [process.pid, ...pids.values()] })
        } catch (error) {
          progress.say(`the pid of neap ${name} could not be noted: ${messageOf(error)}`)
        }
      },
      onRestart: (part, why) => progress.say(`neap ${part} ended (${why}); starting it again`),
    })
  const started = await Promise.allSettled([start('api'), start('worker'), start('proxy')])
  const children = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const [api, worker, proxy] = children
  if (api && worker && proxy) return { api, worker, proxy }
  await Promise.all(children.map((child) => child.stop()))
  throw started.find((result) => result.status === 'rejected')?.reason
}

const PARTS = ['api', 'worker', 'proxy'] as const
const ROTATE_MS = 60_000

const logOf = (dataDir: string, name: keyof Parts): string => join(dataDir, 'parts', `${name}.log`)

/** Keeps the logs of the parts from growing without end, as `rotateLog` does, until it is told to stop. */
export function keepRotating({ dataDir }: Config, { say }: Progress): () => Promise<void> {
  const rotate = () => rotatePartLogs(dataDir).catch((error: unknown) => say(`no log was rotated: ${messageOf(error)}`))
  const timer = setInterval(() => void rotate(), ROTATE_MS)
  return async () => clearInterval(timer)
}

export async function rotatePartLogs(dataDir: string): Promise<void> {
  for (const name of PARTS) await rotateLog(logOf(dataDir, name))
}

/** Ends parts that outlived a killed supervisor, as a frozen one would, before new ones take their place. */
export function endStaleParts(pids: readonly number[], isPart: (pid: number) => boolean): void {
  for (const pid of pids) {
    if (isPart(pid)) process.kill(pid, 'SIGKILL')
  }
}
