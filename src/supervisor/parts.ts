import { readdir } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rotateLog } from '../host/logs.ts'
import { noteProcess } from '../host/process_start.ts'
import { type Config, configEnv } from '../config.ts'
import { messageOf } from '../errors.ts'
import { type PartName, partKeysFile } from '../secrets/part_keys.ts'
import { type Child, type ChildOptions, launchChild } from './child.ts'
import { updateState } from './data_dir.ts'
import { bindProxy } from './listener.ts'
import type { ProgressReporter } from './progress.ts'

const ENTRY = fileURLToPath(new URL('../main.ts', import.meta.url))
const MAX_DEFAULT_PROXIES = 4

/** The parts that run as children of the supervisor. */
export interface Parts {
  /** The other port that proxies listen on; 0 when there is none. */
  readonly extraProxyPort: number
  readonly api: Pick<Child, 'stop'>
  readonly worker: Pick<Child, 'stop'>
  /** All proxies: they share one socket, which is closed with them. */
  readonly proxies: Pick<Child, 'stop'>
  /** Starts the proxies after the first. */
  startRest(): void
}

/** The settings of a part. Its key file holds only its own keys. */
const partEnv = (config: Config, part: PartName): NodeJS.ProcessEnv => {
  const catalogUrl = part === 'proxy' ? (config.proxyCatalogUrl ?? config.catalogUrl) : config.catalogUrl
  return configEnv({ ...config, catalogUrl, secretFile: partKeysFile(config.dataDir, part) })
}

/**
 * The number of proxies: by default one per two cores and at most four, since the traffic of a proxy keeps a compute as
 * busy as itself. With more, each wakes for fewer messages at a time, which costs more CPU time per message.
 */
export const proxyCount = ({ proxies }: Pick<Config, 'proxies'>, cores = availableParallelism()): number =>
  proxies === 0 ? Math.min(Math.max(1, Math.floor(cores / 2)), MAX_DEFAULT_PROXIES) : proxies

/**
 * Starts api, worker and the first proxy concurrently, and notes their pids for the next supervisor in case this one is
 * killed. Resolves when they are ready; `startRest` starts the other proxies. Errors: UsageError.
 * @param metricsPorts one for each proxy
 */
export async function startParts(
  config: Config,
  metricsPorts: readonly number[],
  progress: ProgressReporter,
): Promise<Parts> {
  const pids = new Set<number>()
  const launch = (name: string, part: PartName, more: Partial<ChildOptions> = {}): Child =>
    launchChild({
      name,
      entry: ENTRY,
      args: [part],
      env: partEnv(config, part),
      logFile: join(config.dataDir, 'parts', `${name}.log`),
      onStart(pid) {
        pids.add(pid)
        try {
          updateState(config.dataDir, { processes: [process.pid, ...pids].map(noteProcess) })
        } catch (error) {
          progress.say(`the pid of neap ${name} could not be noted: ${messageOf(error)}`)
        }
      },
      onEnd: (pid) => void pids.delete(pid),
      onRestart: (child, why) => progress.say(`neap ${child} ended (${why}); starting it again`),
      onDrain: (child) => progress.say(`neap ${child} drains after SIGTERM; starting a successor`),
      ...more,
    })
  const { all: listeners, extraProxyPort } = bindProxy(config)
  const closeListeners = (): void => listeners.forEach((listener) => listener.close())
  const launchProxy = (port: number, index: number): Child =>
    launch(index === 0 ? 'proxy' : `proxy-${index + 1}`, 'proxy', {
      env: partEnv({ ...config, extraProxyPort, proxyMetricsPort: port, proxies: metricsPorts.length }, 'proxy'),
      isSpare: index > 0,
      listeners,
    })
  const [api, worker] = [launch('api', 'api'), launch('worker', 'worker')]
  const proxies = metricsPorts.slice(0, 1).map(launchProxy)
  const started = [api, worker, ...proxies]
  const outcomes = await Promise.allSettled(started.map(({ ready }) => ready))
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed) {
    await Promise.all(started.map((child) => child.stop()))
    closeListeners()
    throw failed.reason
  }
  return {
    extraProxyPort,
    api,
    worker,
    startRest() {
      for (const [index, port] of metricsPorts.entries()) if (index > 0) proxies.push(launchProxy(port, index))
    },
    proxies: {
      async stop() {
        // First, so that new clients are refused at once and do not wait in the backlog.
        closeListeners()
        await Promise.all(proxies.map((child) => child.stop()))
      },
    },
  }
}

const ROTATE_MS = 60_000

/** Rotates the logs of the parts periodically, as `rotateLog` does, until the returned function is called. */
export function keepRotating({ dataDir }: Config, { say }: ProgressReporter): () => Promise<void> {
  const rotate = () => rotatePartLogs(dataDir).catch((error: unknown) => say(`no log was rotated: ${messageOf(error)}`))
  const timer = setInterval(() => void rotate(), ROTATE_MS)
  return async () => clearInterval(timer)
}

export async function rotatePartLogs(dataDir: string): Promise<void> {
  const directory = join(dataDir, 'parts')
  for (const file of await readdir(directory)) if (file.endsWith('.log')) await rotateLog(join(directory, file))
}
