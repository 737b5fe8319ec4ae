import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type ApiClient, makeClient } from '../src/client.ts'
import { AppError } from '../src/errors.ts'
import type { Ready } from '../src/supervisor/up.ts'
import { removeGroups } from './control_groups.ts'
import { kill, processesOf, remainingProcesses, until } from './processes.ts'

export const NEAP = fileURLToPath(new URL('../bin/neap', import.meta.url))

export type PartName = 'api' | 'worker' | 'proxy'

/** A real Neap in a data directory of its own, started as a user starts it. */
export interface Neap {
  readonly ready: Ready & { readonly ca_file: string }
  readonly process: ChildProcess
  readonly call: ApiClient
  /** Its standard error so far. */
  stderr(): string
  /** Waits until operations have ended, also across an outage of the control plane. Errors: an operation failed. */
  ended(operations: readonly { id: string; project_id: string }[]): Promise<void>
  /** The pid of a running part; of the proxies, any one. */
  part(name: PartName): number | undefined
  /** The pids of all parts of this name: several proxies, including one that drains. */
  parts(name: PartName): number[]
  /** Kills supervisor, api, worker and proxies with SIGKILL at once; computes and catalog keep running. */
  kill(): Promise<void>
  /** Sends the supervisor a signal and returns its exit code. */
  end(signal?: NodeJS.Signals): Promise<number | null>
  /** Ends it as Ctrl-C does, asserts that no process is left, and removes its data unless told to keep it. */
  stop(options?: { keep?: boolean }): Promise<void>
}

export interface NeapOptions {
  readonly dataDir?: string
  readonly args?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** A wrapper command that ends in an exec of the following command, as `nice` does. */
  readonly through?: readonly string[]
  /** The command line of another version of Neap. */
  readonly program?: string
}

export const newDataDir = (): string => mkdtempSync(join(tmpdir(), 'neap-'))

/**
 * The environment of a Neap in that data directory. Its sockets are there too, so that it leaves no files elsewhere.
 */
export const envOf = (dataDir: string, env: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...process.env,
  NEAP_DATA_DIR: dataDir,
  NEAP_RUNTIME_DIR: join(dataDir, 'run'),
  // The default is a single fixed port, for which concurrent tests would race.
  NEAP_EXTRA_PROXY_PORT: '0',
  // Most tests look at what a deletion removes. Those of recoveries give it time.
  NEAP_BRANCH_RECOVER_HOURS: '0',
  ...env,
})

export function spawnNeap(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  through: readonly string[] = [],
  neap: string = NEAP,
): ChildProcess {
  const [program = neap, ...rest] = [...through, neap, ...args]
  return spawn(program, rest, { stdio: ['ignore', 'pipe', 'pipe'], env })
}

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program until it exits. */
export function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(program, args, { env, maxBuffer: 64 * 2 ** 20 }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr })
    })
  })
}

/** Runs the `neap` command line until it exits. */
export const neapRun = (args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ran> => run(NEAP, args, env)

/** Starts Neap and waits until it reports that it is ready. */
export async function startNeap(options: NeapOptions = {}): Promise<Neap> {
  const dataDir = options.dataDir ?? newDataDir()
  const args = ['up', '--json', '--data-dir', dataDir, '--api-port', '0', '--proxy-port', '0', ...(options.args ?? [])]
  const child = spawnNeap(args, envOf(dataDir, options.env), options.through, options.program)
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = once(child, 'exit').then(([code]: unknown[]) => code as number | null)
  const first = await Promise.race([
    once(createInterface({ input: child.stdout as NonNullable<typeof child.stdout> }), 'line').then(
      ([line]: unknown[]) => String(line),
    ),
    ended.then((code) => {
      throw new Error(`neap ended with ${code}: ${stderr}`)
    }),
  ]).catch(async (error: unknown) => {
    if (options.dataDir === undefined) await leaveNothing(dataDir)
    throw error
  })
  const ready = JSON.parse(first) as Neap['ready']
  const call = makeClient({ socket: join(dataDir, 'api.sock') })

  async function end(signal: NodeJS.Signals = 'SIGINT'): Promise<number | null> {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    return ended
  }

  const parts = (name: PartName): number[] =>
    processesOf(dataDir).flatMap(({ command, pid }) => (command.endsWith(`/main.ts ${name}`) ? [pid] : []))

  return {
    ready,
    process: child,
    call,
    stderr: () => stderr,
    async ended(operations) {
      for (const { id, project_id } of operations) {
        const operation = await until(`the end of operation ${id}`, async () => {
          const params = { project_id, operation_id: id }
          const answer = await call('GET /projects/:project_id/operations/:operation_id', { params }).catch(ifAway)
          return answer && ['finished', 'failed'].includes(answer.operation.status) && answer.operation
        })
        if (operation.status === 'failed') throw new Error(`${operation.action} failed: ${operation.error}`)
      }
    },
    part: (name) => parts(name)[0],
    parts,
    kill: () => kill(...controlPlane(dataDir)),
    end,
    async stop({ keep = false } = {}) {
      await end()
      await leaveNothing(dataDir, { keep })
    },
  }
}

/** Ignores errors of an API that restarts or has lost its catalog. Errors: any other AppError. */
export function ifAway(error: unknown): undefined {
  if (error instanceof AppError && error.code !== 'UNAVAILABLE') throw error
}

/** The pids of supervisor, api, worker and proxies. */
export function controlPlane(dataDir: string): number[] {
  return processesOf(dataDir)
    .filter(({ command }) => /\/main\.ts (up|api|worker|proxy)\b/.test(command))
    .map(({ pid }) => pid)
}

/**
 * Asserts that no process of a data directory is left, kills the remaining ones, and removes the directory unless told
 * to keep it.
 */
export async function leaveNothing(dataDir: string, { keep = false } = {}): Promise<void> {
  const left = await remainingProcesses(dataDir)
  await kill(...left.map(({ pid }) => pid))
  if (!keep) {
    await removeGroups(dataDir)
    rmSync(dataDir, { recursive: true, force: true })
  }
  assert.deepEqual(
    left.map(({ command }) => command.slice(0, 100)),
    [],
    'processes were left',
  )
}
