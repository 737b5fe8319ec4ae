import { deepEqual, rejects } from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { checkChosen } from './binaries.ts'
import { copyServer, serverTree } from './server_copy.ts'

const dir = mkdtempSync(join(tmpdir(), 'neap-copy-'))
after(() => rmSync(dir, { recursive: true }))

/** A tree as `make install` lays it out, with an extension. Returns its directory of programs. */
function makeTree(name: string): string {
  const top = join(dir, name)
  for (const each of ['bin', 'lib', 'share/extension']) mkdirSync(join(top, each), { recursive: true })
  for (const program of ['postgres', 'initdb'])
    writeFileSync(join(top, 'bin', program), '#!/bin/sh\necho "postgres (PostgreSQL) 17.5"\n', { mode: 0o755 })
  for (let n = 0; n < 200; n++) writeFileSync(join(top, 'lib', `lib${n}.so`), 'library')
  writeFileSync(join(top, 'share/extension/postgis.control'), "default_version = '3'\n")
  writeFileSync(join(top, 'share/extension/postgis--3.sql'), 'select 1;\n')
  return join(top, 'bin')
}

test('copies that are made at the same time are whole', async () => {
  const bin = makeTree('twice')
  const target = join(dir, 'copy')
  await Promise.all(Array.from({ length: 5 }, () => copyServer(serverTree(bin), target)))
  deepEqual(readdirSync(join(target, 'bin')), ['initdb', 'postgres'])
  deepEqual(readdirSync(join(target, 'lib')).length, 200)
  deepEqual(
    readdirSync(dir).filter((name) => name.includes('making')),
    [],
  )
})

test('a link out of the copy becomes a file of it, and the file it led to stays as it is', async () => {
  const bin = makeTree('linked')
  const outside = join(dir, 'outside.control')
  writeFileSync(outside, "default_version = '1'\n")
  symlinkSync(outside, join(bin, '../share/extension/hypopg.control'))
  symlinkSync('postgis--3.sql', join(bin, '../share/extension/postgis--2--3.sql'))
  const target = join(dir, 'unlinked')
  await copyServer(serverTree(bin), target)
  const read = (name: string) => readFileSync(join(target, 'share/extension', name), 'utf8')
  deepEqual(readFileSync(outside, 'utf8'), "default_version = '1'\n")
  deepEqual(read('hypopg.control'), "default_version = '1'\n\ntrusted = true\n")
  // The guard stands once in each script.
  deepEqual(
    [read('postgis--3.sql'), read('postgis--2--3.sql')].map((text) => text.split('$neap$').length),
    [3, 3],
  )
})

test('a directory without a server of the version is refused', async () => {
  const bin = makeTree('chosen')
  await checkChosen({ 17: bin })
  await rejects(checkChosen({ 16: bin }), /for Postgres 16: there is postgres \(PostgreSQL\) 17\.5\./)
  await rejects(checkChosen({ 17: join(bin, 'none') }), /there is no Postgres; name the directory/)
  await rejects(checkChosen({ 17: '/usr/bin' }), /a directory of its own/)
})
