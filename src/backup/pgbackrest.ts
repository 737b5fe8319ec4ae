/** Runs pgBackRest (pgbackrest.org), which writes backups and WAL to a repository and reads them there. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { UsageError } from '../errors.ts'
import { NO_PROGRAM, spawnGivingWay } from '../host/give_way.ts'
import { BARE_ENVIRONMENT } from '../host/script.ts'

/** The first version that knows Postgres 18. */
const LEAST = [2, 55] as const

export class BackupError extends Error {}

export interface RunOptions {
  /** Its standard input. */
  readonly input?: Buffer
  /** Exit codes that are a result; others are errors. */
  readonly codes?: readonly number[]
  /** Ends it early: the call fails with the reason of the signal once it has ended. */
  readonly signal?: AbortSignal | undefined
}

export interface Ran {
  readonly code: number
  readonly output: Buffer
}

/** Runs pgBackRest with its configuration. */
export type PgBackRest = (args: readonly string[], run?: RunOptions) => Promise<Ran>

/**
 * @param config the path of its configuration, which names the repository
 * @param signal ends all commands early
 * @returns a function that runs a command. Errors: BackupError with pgBackRest's message; UsageError when there is
 *   no pgBackRest.
 */
export const pgBackRest =
  (program: string, config: string, signal?: AbortSignal): PgBackRest =>
  (args, options) =>
    runProgram(program, [`--config=${config}`, ...args], { signal, ...options })

/**
 * Has pgBackRest end with its caller, where the system can (setpriv(1), of util-linux): a restore that is repeated
 * after a kill would have two that write to one directory.
 */
const ENDS_WITH_CALLER = 'command -v setpriv >/dev/null && exec setpriv --pdeathsig TERM -- "$@"; exec "$@"'

/** Milliseconds after which it is killed that was told to end. */
const KILL_MS = 3_000

async function runProgram(
  program: string,
  args: readonly string[],
  { input, codes = [0], signal }: RunOptions = {},
): Promise<Ran> {
  const child = spawnGivingWay('sh', ['-c', ENDS_WITH_CALLER, 'sh', program, ...args], {
    env: BARE_ENVIRONMENT,
    stdio: 'pipe',
  })
  // It could not be started, and may have no streams: its error follows.
  if (child.pid === undefined) await once(child, 'spawn')
  let killing: NodeJS.Timeout | undefined
  const end = () => {
    signalAll(child, 'SIGTERM')
    killing = setTimeout(() => signalAll(child, 'SIGKILL'), KILL_MS)
  }
  signal?.addEventListener('abort', end)
  if (signal?.aborted) end()
  const ended: Promise<unknown[]> = once(child, 'close')
  // It may end without reading its input.
  child.stdin.on('error', () => {})
  child.stdin.end(input ?? '')
  const [output, said, [code, endedBy]] = await Promise.all([
    buffer(child.stdout),
    buffer(child.stderr),
    ended.finally(() => {
      signal?.removeEventListener('abort', end)
      clearTimeout(killing)
    }),
  ])
  if (signal?.aborted) {
    // Its helpers may be waiting for the repository yet.
    signalAll(child, 'SIGKILL')
    signal.throwIfAborted()
  }
  if (code === NO_PROGRAM) throw new UsageError(missing(program))
  if (typeof code === 'number' && codes.includes(code)) return { code, output }
  const how = typeof code === 'number' ? `ended with ${code}` : `was ended by ${String(endedBy)}`
  throw new BackupError(reasonIn(said.toString('utf8')) || `pgBackRest ${how}`)
}

/** Signals a program, which leads a process group, and its helpers. */
function signalAll({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch {
    // All have ended.
  }
}

const missing = (program: string): string =>
  `There is no ${program}: install pgBackRest ${LEAST.join('.')} or newer, or name its program in NEAP_PGBACKREST.`

/** Errors: UsageError, unless there is a pgBackRest that knows the versions of Postgres that Neap runs. */
export async function requirePgBackRest(program: string): Promise<void> {
  const { output } = await runProgram(program, ['version'])
  const [, major, minor] = /(\d+)\.(\d+)/.exec(output.toString('utf8')) ?? []
  if (Number(major) > LEAST[0] || (Number(major) === LEAST[0] && Number(minor) >= LEAST[1])) return
  throw new UsageError(`${program} is version ${major}.${minor}: install pgBackRest ${LEAST.join('.')} or newer.`)
}

/** The errors in its output, each with the indented lines that go on with it, without its hints. */
export function reasonIn(said: string): string {
  const errors = said.split(/^(?=\S)/m).flatMap((entry) => /^ERROR: \[\d+\]: (.*)/s.exec(entry)?.[1] ?? [])
  return errors
    .map((error) =>
      error
        .replace(/\s*^\s+HINT: .*/ms, '')
        .replace(/\s*\n\s*/g, ' ')
        .trim(),
    )
    .join('; ')
}
