/*
 * A pgbench that connects once and then runs in rounds, stopped by SIGSTOP in between: programs under test take turns
 * in short rounds, and no round includes the cost of connecting.
 */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { spawnInSession } from './session.ts'
import { libpqEnv, type Target } from './targets.ts'

/** The protocol messages that send a query. */
export type QueryMode = 'simple' | 'extended' | 'prepared'

export interface Pgbench {
  /** Runs for one second and calls `read` at its beginning and end. Errors: a client of pgbench failed. */
  round<T>(
    read: () => T,
  ): Promise<{ readonly before: T; readonly after: T; readonly queries: number; readonly tps: number }>
  end(): Promise<void>
}

/** Longer than any benchmark. */
const SECONDS = 36_000

/**
 * Connects a pgbench whose clients send `select 1` in a closed loop.
 * @param dir where its script is written
 */
export async function startPgbench(dir: string, target: Target, mode: QueryMode, clients: number): Promise<Pgbench> {
  const script = join(dir, 'select1.sql')
  writeFileSync(script, 'select 1;\n')
  const load = ['-n', '-f', script, '-M', mode, '-c', String(clients), '-j', '2', '-T', String(SECONDS)]
  const child = spawnInSession('pgbench', [...load, '-P', '1', '--progress-timestamp'], { env: libpqEnv(target) })
  const ended = once(child, 'exit')
  const said: string[] = []
  const lines = createInterface({ input: child.stderr })
  lines.on('line', (line) => said.push(line))
  const failed = ended.then(() => {
    throw new Error(`pgbench ended: ${said.join('\n')}`)
  })
  failed.catch(() => {})

  /** The next progress report: its time in seconds, and the transactions per second since the last report. */
  async function progress(): Promise<{ at: number; tps: number }> {
    for (;;) {
      const [line] = (await Promise.race([once(lines, 'line'), failed])) as [string]
      const [, at, tps] = /^progress: ([\d.]+) s, ([\d.]+) tps/.exec(line) ?? []
      if (at !== undefined) return { at: Number(at), tps: Number(tps) }
    }
  }

  const stop = () => child.kill('SIGSTOP')
  await progress()
  stop()

  return {
    async round(read) {
      child.kill('SIGCONT')
      // The first report covers the time in which it was stopped.
      await progress()
      const begin = await progress()
      const before = read()
      const { at, tps } = await progress()
      const after = read()
      stop()
      return { before, after, queries: tps * (at - begin.at), tps }
    },
    async end() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
