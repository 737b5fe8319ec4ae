import { deepEqual, equal, ok } from 'node:assert/strict'
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { memoryLimit } from '../../../test/control_groups.ts'
import { freshHost, PG_VERSION, query, settled } from '../../../test/local_host.ts'
import { notedServer } from './server_note.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

test("a drill's server is within walls and a small control group, and ends", async (t) => {
  const missing = await computes.whyNoLimits()
  if (missing !== undefined) return t.skip(missing)
  const branch = local.branch('tried')
  await settled(() => storage.create(branch, next()))
  const { address } = await local.start(branch, next())
  await query(address, 'create table kept as select 1 as n')
  await settled(() => computes.stop(branch, next()))
  const home = join(local.base, 'drill')
  cpSync(local.home(branch), home, { recursive: true, preserveTimestamps: true })

  const server = await computes.runDrill(branch, home, AbortSignal.timeout(60_000), async (socket) => {
    deepEqual(await query(socket, 'select n from kept'), [{ n: 1 }])
    return notedServer(home)
  })
  ok(server)
  equal(memoryLimit(local.options.dataDir, server.instance), 512 * 2 ** 20)
  equal(notedServer(home), undefined)
  ok(readFileSync(join(home, 'postgres.log'), 'utf8').includes('database system is shut down'))
})
