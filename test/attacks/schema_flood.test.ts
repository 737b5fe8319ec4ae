import assert from 'node:assert/strict'
import type pg from 'pg'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { dumpSchema } from '../../src/compute_admin/schema.ts'
import { superuser } from '../admin.ts'
import { type Neap, startNeap } from '../neap.ts'

/* A compute answers a query of pg_dump with an endless stream of rows. */

const MAX_SENT = 2 ** 30
const MAX_PEAK_KIB = 700 * 1024

let neap: Neap

before(async () => {
  neap = await startNeap({ args: ['--no-project'] })
})
after(() => neap?.stop())

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5, type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

/** A text column, and many rows of it (Postgres manual, "Message Formats"). */
const COLUMN = message('T', Buffer.from('\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0', 'latin1'))
const ROW = message('D', Buffer.concat([Buffer.from('\0\x01\0\0\x20\0', 'latin1'), Buffer.alloc(8192, 'x')]))
const ROWS = Buffer.concat(Array.from({ length: 128 }, () => ROW))

/** Relays a session until the client's first query, then floods the client. */
async function fakeCompute(real: string) {
  const dir = mkdtempSync(join(tmpdir(), 'neap-false-'))
  let sent = 0
  const server = createServer((client) => {
    const upstream = connect(real)
    for (const socket of [client, upstream]) socket.on('error', () => socket.destroy())
    upstream.pipe(client)
    client.once('close', () => upstream.destroy())
    client.on('data', (bytes: Buffer) => {
      if (bytes[0] === 0x51) {
        upstream.unpipe(client)
        client.write(COLUMN)
        send()
      } else upstream.write(bytes)
      function send(): void {
        while (!client.destroyed && sent < MAX_SENT) {
          sent += ROWS.length
          if (!client.write(ROWS)) return void client.once('drain', send)
        }
      }
    })
  }).listen(join(dir, '.s.PGSQL.5432'))
  await once(server, 'listening')
  return {
    dir,
    sent: () => sent,
    close() {
      server.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** The peak memory of any child of this process, in KiB. */
function childrenPeak(): number {
  const pids = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')
  const statuses = pids.map((pid) => `/proc/${pid}/status`).filter((file) => existsSync(file))
  return Math.max(...statuses.map((file) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(file, 'utf8'))?.[1] ?? 0)))
}

async function flood(pgVersion: 15 | 18, t: TestContext): Promise<void> {
  const made = await neap.call('POST /projects', { body: { project: { pg_version: pgVersion } } })
  await neap.ended(made.operations)
  const place = { project_id: made.project.id, branch_id: made.branch.id, endpoint_id: made.endpoints[0]?.id ?? '' }
  const admin = await superuser(neap, { ...place, uri: '' })
  t.after(() => admin.end())
  const { host, port, password } = admin as pg.Client & { password: string }
  const compute = await fakeCompute(`${host}/.s.PGSQL.${port}`)
  t.after(() => compute.close())
  const address = { host: compute.dir, port: 5432, store: place.branch_id }
  const payer = { account_id: 'a', project_id: place.project_id }
  const { signal } = new AbortController()
  const dump = dumpSchema(address, { payer, password, database: 'neondb', pgVersion, signal })
  await assert.rejects(dump, { code: 'NOT_ALLOWED' })
  assert.ok(compute.sent() > 0)
}

test("an endless result does not fill the memory of pg_dump, the system's or the bundled one", async (t) => {
  let peak = 0
  const timer = setInterval(() => (peak = Math.max(peak, childrenPeak())), 250)
  t.after(() => clearInterval(timer))
  await Promise.all([flood(15, t), flood(18, t)])
  assert.ok(peak > 0 && peak < MAX_PEAK_KIB, `it took ${peak} KiB of memory`)
})
