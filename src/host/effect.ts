import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { getSystemErrorMap, promisify } from 'node:util'
import { type Fence, FencedError } from './fence.ts'
import { BARE_ENVIRONMENT, SCRIPT } from './script.ts'
import { forkEffect } from './spawner.ts'

/** The result of an effect, from effect.pl's exit code. */
export type EffectOutcome = 'done' | 'held' | 'gone' | 'busy' | 'live' | 'stale' | 'based'

const OUTCOMES: Record<number, EffectOutcome> = {
  0: 'done',
  81: 'held',
  82: 'gone',
  83: 'busy',
  84: 'live',
  85: 'stale',
  86: 'based',
}
const FENCED = 80
/** Exit codes from here on are this plus the errno of the failure. */
const ERRNO = 128

/** Arguments and environment of the effect that watches processes: it reads pids and writes those that have ended. */
export const watchArgs = { args: ['-e', SCRIPT, '--', 'watch'], env: BARE_ENVIRONMENT }

/** A fence as effects take it. */
export const fenceText = (fence: Fence | undefined): string =>
  fence ? `${fence.epoch} ${fence.seq} ${fence.generation}` : '-'

/**
 * Spawns an effect that becomes another program, in a session of its own, with all output to a file, never a pipe. Its
 * standard input stays open for the caller; it is absent if this process lacks descriptors, and `error` is emitted.
 */
export function spawnEffect(args: readonly string[], output: number, env: Record<string, string> = {}): ChildProcess {
  const child: ChildProcess = spawn('perl', ['-e', SCRIPT, '--', ...args], {
    detached: true,
    stdio: ['pipe', output, output],
    env: { ...BARE_ENVIRONMENT, ...env },
  })
  // An effect that has ended reads no input: ignore the write error.
  child.stdin?.on('error', () => undefined)
  return child
}

/**
 * Runs one effect to its end. It continues even when this process dies.
 * @throws FencedError when a newer attempt acted on this home
 */
export async function runEffect(args: readonly string[]): Promise<EffectOutcome> {
  const { code, complaint } = await forkEffect(args).ended
  return outcomeOf(code, complaint)
}

/**
 * Runs an effect that inherits open files of this process, from descriptor 3 on, or that `signal` can abort.
 * @throws FencedError when a newer attempt acted on this home
 */
export async function runEffectHere(
  args: readonly string[],
  { descriptors = [], signal }: { descriptors?: readonly number[]; signal?: AbortSignal },
): Promise<EffectOutcome> {
  const child = spawn('perl', ['-e', SCRIPT, '--', ...args], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', ...descriptors],
    env: BARE_ENVIRONMENT,
    ...(signal ? { signal } : {}),
  })
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (complaint += text))
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return outcomeOf(code, complaint)
}

/** @throws FencedError, or an error with the effect's message and, as its `code`, the name of the system error */
export function outcomeOf(code: number | null, complaint: string): EffectOutcome {
  const outcome = OUTCOMES[code ?? -1]
  if (outcome) return outcome
  if (code === FENCED) throw new FencedError('A newer attempt has taken this branch over.')
  const [name, text] = getSystemErrorMap().get(ERRNO - (code ?? 0)) ?? ['', `the effect ended with code ${code}`]
  throw Object.assign(new Error(complaint.trim() || text), { code: name })
}

/** Runs a read-only effect and returns the lines that it writes. Errors: its error message. */
export async function askEffect(args: readonly string[]): Promise<string[]> {
  const asked = promisify(execFile)('perl', ['-e', SCRIPT, '--', ...args], { env: BARE_ENVIRONMENT })
  const { stdout } = await asked.catch((error: unknown) => {
    const { code = null, stderr = '' } = error as { code?: number | null; stderr?: string }
    outcomeOf(code, stderr)
    throw error
  })
  return stdout.split('\n').filter((line) => line !== '')
}

/** Whether an exit code is effect.pl's own rather than that of the server it started. */
export function isEffectCode(code: number | null): boolean {
  return code !== null && (code === FENCED || code >= ERRNO || (code !== 0 && code in OUTCOMES))
}
