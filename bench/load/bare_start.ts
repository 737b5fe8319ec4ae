/* The bare limit of a wake: the same Postgres, started by hand on the data directory of a suspended branch. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'

export interface BareServer {
  /** Milliseconds from its spawn until its first row over the socket. */
  readonly ms: number
  stop(): Promise<void>
}

const PORT = 54_999

/** Starts the Postgres of a branch with its last configuration, as its own user, and asks for a first row (trust). */
export async function bareStart(dataDir: string, branchId: string): Promise<BareServer> {
  const home = join(dataDir, 'branches', branchId)
  const pgdata = join(home, 'pgdata')
  const { uid, gid } = statSync(pgdata)
  const scratch = mkdtempSync(join(tmpdir(), 'neap-bare-'))
  chmodSync(scratch, 0o777)
  const hba = join(scratch, 'hba')
  writeFileSync(hba, 'local all all trust\n')
  const log = openSync(join(scratch, 'log'), 'w')
  const settings = [`config_file=${join(home, 'conf/neap.conf')}`, `hba_file=${hba}`, 'listen_addresses=']
  const args = ['-D', pgdata, ...settings.flatMap((each) => ['-c', each]), '-p', String(PORT), '-k', scratch]
  const program = programIn(dataDir)
  const begun = performance.now()
  const server = spawn(program, args, { uid, gid, detached: true, stdio: ['ignore', log, log] })
  await ready(pgdata, server)
  const client = new pg.Client({ host: scratch, port: PORT, user: 'neap_admin', database: 'neap' })
  await client.connect()
  await client.query('select 1')
  const ms = performance.now() - begun
  await client.end()
  return {
    ms,
    async stop() {
      const gone = once(server, 'exit')
      server.kill('SIGINT')
      await gone
      closeSync(log)
      rmSync(scratch, { recursive: true })
    },
  }
}

function programIn(dataDir: string): string {
  const version = readdirSync(join(dataDir, 'pg'))[0] ?? ''
  const inBin = join(dataDir, 'pg', version, 'bin', 'postgres')
  return existsSync(inBin) ? inBin : join(dataDir, 'pg', version)
}

function ready(pgdata: string, server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      const [pid, , , , , , , status] = existsSync(join(pgdata, 'postmaster.pid'))
        ? readFileSync(join(pgdata, 'postmaster.pid'), 'utf8').split('\n')
        : []
      if (Number(pid) !== server.pid || !status?.startsWith('ready')) return
      watcher.close()
      resolve()
    }
    const watcher = watch(pgdata, (_event, name) => {
      if (name === 'postmaster.pid') look()
    })
    server.once('exit', (code) => {
      watcher.close()
      reject(new Error(`postgres ended with ${code}`))
    })
  })
}
