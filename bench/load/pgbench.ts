import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from '../../test/neap.ts'
import { libpqEnv, need, type Target } from './targets.ts'

/** By which protocol messages a query is sent. */
export type QueryMode = 'simple' | 'extended' | 'prepared'

export type Pgbench = (target: Target, mode: QueryMode, clients: number, seconds: number) => Promise<number>

/**
 * Has pgbench send `select 1` over and over; answers its transactions per second, the time to connect left out.
 * @param dir where the script may lie
 * Errors: a client of pgbench failed.
 */
export function makePgbench(dir: string): Pgbench {
  need('pgbench', '--version')
  const script = join(dir, 'select1.sql')
  writeFileSync(script, 'select 1;\n')
  return async (target, mode, clients, seconds) => {
    const args = ['-n', '-f', script, '-M', mode, '-c', String(clients), '-j', '2', '-T', String(seconds)]
    const { code, stdout, stderr } = await run('pgbench', args, libpqEnv(target))
    const tps = /^tps = ([\d.]+)/m.exec(stdout)?.[1]
    if (code !== 0 || tps === undefined) throw new Error(`pgbench failed with ${code}: ${stderr}${stdout}`)
    return Number(tps)
  }
}
