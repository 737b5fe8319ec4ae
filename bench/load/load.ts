import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { run } from '../../test/neap.ts'

const program = (name: string) => fileURLToPath(new URL(name, import.meta.url))

export interface Load {
  readonly perSecond: number
  readonly milliseconds: readonly number[]
}

/** Loads a path from a separate process. Errors: an answer was not 200. */
export async function load(
  port: number,
  path: string,
  key: string,
  connections: number,
  seconds: number,
): Promise<Load> {
  const args = [program('generator.ts'), String(port), path, key, String(connections), String(seconds)]
  const { code, stdout, stderr } = await run(process.execPath, args)
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as Load
}

/** Starts the baseline server; returns its port and a function that stops it. */
export async function bareServer(
  catalogUrl: string,
  connections: number,
): Promise<{ port: number; stop: () => Promise<void> }> {
  const child = fork(program('bare_server.ts'), [catalogUrl, String(connections)])
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  return {
    port,
    async stop() {
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}
