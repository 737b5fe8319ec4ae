import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { messageOf } from '../errors.ts'
import { BARE_ENVIRONMENT, SCRIPT } from './script.ts'

export interface EffectEnd {
  /** Null when a signal ended it. */
  readonly code: number | null
  readonly complaint: string
}

export interface RunningEffect {
  /** Errors: it could not be started, or its spawner has ended. */
  readonly ended: Promise<EffectEnd>
  /** Writes to its standard input, once, and closes it. */
  tell(text: string): void
}

interface Spawner {
  /** Without streams if this process lacks descriptors; its `error` follows. */
  readonly child: ChildProcess
  readonly running: Map<string, { resolve: (end: EffectEnd) => void; reject: (error: Error) => void }>
}

let spawner: Spawner | undefined
let count = 0

/**
 * Starts an effect in a session of its own, from a small spawner process: a fork stalls a process as large as this one
 * for several milliseconds. The effect continues when either process ends.
 * @param output the file that all its output is appended to; without it, its error output comes with its end
 */
export function forkEffect(args: readonly string[], output = '-'): RunningEffect {
  spawner ??= start()
  const { child, running } = spawner
  const id = String(++count)
  const request = line(['run', id, output, ...args])
  const { promise, resolve, reject } = Promise.withResolvers<EffectEnd>()
  // Prevent an unhandled rejection: the caller may not await the promise any more.
  promise.catch(() => undefined)
  running.set(id, { resolve, reject })
  keepAlive(spawner)
  child.stdin?.write(request)
  return { ended: promise, tell: (text) => void child.stdin?.write(line(['tell', id, text])) }
}

const toHex = (word: string): string => Buffer.from(word).toString('hex')
const fromHex = (digits: string): string => Buffer.from(digits, 'hex').toString()
const line = (words: readonly string[]): string => `${words.map(toHex).join(' ')}\n`

function start(): Spawner {
  const child: ChildProcess = spawn('perl', ['-e', SCRIPT, '--', 'serve'], {
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    env: BARE_ENVIRONMENT,
  })
  const begun: Spawner = { child, running: new Map() }
  const over = (error: Error): void => {
    if (spawner === begun) spawner = undefined
    for (const { reject } of begun.running.values()) reject(error)
    begun.running.clear()
  }
  child.once('error', over)
  child.once('exit', (code) => over(new Error(`The process that starts effects has ended with code ${code}.`)))
  child.stdin?.on('error', (error) => over(new Error(`An effect could not be started: ${messageOf(error)}`)))
  if (child.stdout) createInterface({ input: child.stdout }).on('line', read)
  return begun

  function read(answer: string): void {
    const [named = '', code, complaint = ''] = answer.split(' ')
    const id = fromHex(named)
    const ended = begun.running.get(id)
    begun.running.delete(id)
    keepAlive(begun)
    ended?.resolve({ code: code === '-1' ? null : Number(code), complaint: fromHex(complaint) })
  }
}

/** Keeps this process alive for as long as it waits for an effect. */
function keepAlive({ child, running }: Spawner): void {
  for (const each of [child, child.stdin as Socket | null, child.stdout as Socket | null]) {
    if (running.size > 0) each?.ref()
    else each?.unref()
  }
}
