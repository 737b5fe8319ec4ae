import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { chmodSync, existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PG_VERSION, freshHost, inAnotherProcess, query, settled } from '../../test/local_host.ts'

test('concurrent preparations make one template', async () => {
  const local = freshHost()
  const prepare = `await storage.prepare(${PG_VERSION}); console.log(true)`
  const prepared = await Promise.all([1, 2].map(() => inAnotherProcess(local.options, prepare)))
  deepEqual(prepared, [true, true])
  deepEqual(readdirSync(join(local.options.dataDir, 'templates', String(PG_VERSION))).sort(), [
    'lock',
    'password_of',
    'pgdata',
  ])
  equal(readdirSync(join(local.options.dataDir, 'pg')).length, 1)
  await local.dispose()
})

test('preparing an uninstalled Postgres fails with its version and leaves no files', async () => {
  const local = freshHost()
  ok((await local.storage.pgVersions()).every((version) => version > 14))
  await rejects(local.storage.prepare(14), /Postgres 14 is not installed: .*postgresql-14/)
  equal(existsSync(join(local.options.dataDir, 'templates', '14')), false)
  await local.dispose()
})

const SYSTEM = [15, 16, 17].find((version) => existsSync(`/usr/lib/postgresql/${version}/bin/initdb`))

test('computes run on the Postgres of the system too', { skip: SYSTEM ? false : 'none is installed' }, async () => {
  const local = freshHost()
  await local.storage.prepare(SYSTEM ?? 0)
  const branch = { ...local.branch('system'), pgVersion: SYSTEM ?? 0 }
  await settled(() => local.storage.create(branch, local.next()))
  const { address } = await local.start(branch, local.next())
  const [row] = await query<{ server_version: string }>(address, 'SHOW server_version')
  equal(Number.parseInt(row?.server_version ?? ''), SYSTEM)
  await local.dispose()
})

test(
  'as root, a directory that computes cannot reach is refused by name',
  { skip: process.getuid?.() !== 0 },
  async () => {
    const local = freshHost()
    chmodSync(local.base, 0o700)
    await rejects(local.storage.prepare(PG_VERSION), new RegExp(`${local.base} is closed to them`))
    rmSync(local.base, { recursive: true })
  },
)
