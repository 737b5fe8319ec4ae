import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Client, makeClient } from '../src/client.ts'
import type { Ready } from '../src/supervisor/up.ts'

export const NEAP = fileURLToPath(new URL('../bin/neap', import.meta.url))

/** A real Neap in a data directory of its own, as a user starts it. */
export interface Neap {
  readonly ready: Ready
  readonly process: ChildProcess
  readonly call: Client
  /** What it has said on standard error so far. */
  stderr(): string
  /** Waits until operations have ended; throws for one that failed. */
  ended(operations: readonly { id: string; project_id: string }[]): Promise<void>
  /** Ends it as Ctrl-C does, and removes its data unless told to keep it. */
  stop(options?: { keep?: boolean }): Promise<void>
}

export interface NeapOptions {
  readonly dataDir?: string
  readonly args?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
}

export const newDataDir = (): string => mkdtempSync(join(tmpdir(), 'neap-'))

/** Starts Neap and waits until it says that it is ready. */
export async function startNeap(options: NeapOptions = {}): Promise<Neap> {
  const dataDir = options.dataDir ?? newDataDir()
  const args = ['up', '--json', '--data-dir', dataDir, '--api-port', '0', '--proxy-port', '0', ...(options.args ?? [])]
  const child = spawn(NEAP, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...options.env } })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const lines = createInterface({ input: child.stdout })
  const first = await Promise.race([
    once(lines, 'line').then(([line]: unknown[]) => String(line)),
    once(child, 'exit').then(([code]: unknown[]) => { throw new Error(`neap ended with ${String(code)}: ${stderr}`) }),
  ])
  const ready = JSON.parse(first) as Ready
  const call = makeClient({ socket: join(dataDir, 'api.sock') })

  async function ended(operations: readonly { id: string; project_id: string }[]): Promise<void> {
    for (const { id, project_id } of operations) {
      for (;;) {
        const { operation } = await call('GET /projects/:project_id/operations/:operation_id', { params: { project_id, operation_id: id } })
        if (operation.status === 'failed') throw new Error(`${operation.action} failed: ${operation.error}`)
        if (operation.status === 'finished') break
        await new Promise((resolve) => { setTimeout(resolve, 10) })
      }
    }
  }

  return {
    ready,
    process: child,
    call,
    stderr: () => stderr,
    ended,
    async stop({ keep = false } = {}) {
      if (child.exitCode === null && child.signalCode === null) {
        const gone = once(child, 'exit')
        child.kill('SIGINT')
        await gone
      }
      if (!keep) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
