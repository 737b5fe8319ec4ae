import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { peer } from '../clients/peers.ts'
import { query } from '../clients.ts'
import { envOf, leaveNothing, type Neap, neapRun, newDataDir, startNeap } from '../neap.ts'
import { firstPlace } from '../project.ts'
import { type Sftp, SSHD, startSftp } from './sftp.ts'

/* Backups to another machine by SFTP. */

const PROGRAM = { NEAP_PGBACKREST: peer('pgbackrest/pgbackrest') }
const skip = existsSync(SSHD) ? false : 'not installed: openssh-server'

let neap: Neap
let sftp: Sftp
let elsewhere: string

before(async () => {
  if (skip) return
  elsewhere = mkdtempSync(join(tmpdir(), 'neap-elsewhere-'))
  sftp = await startSftp(join(elsewhere, 'sshd'))
  neap = await startNeap({ env: PROGRAM })
})

after(async () => {
  await neap?.stop()
  await sftp?.stop()
  if (elsewhere) rmSync(elsewhere, { recursive: true, force: true })
})

const command = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  neapRun(args, envOf(neap.ready.data_dir, { ...PROGRAM, ...env }))

test('an installation is backed up by SFTP, and restored from there', { skip }, async () => {
  const location = `${sftp.url}${elsewhere}/repository`
  const key = ['--sftp-key', sftp.keyFile]
  const stranger = `SHA256:${Buffer.alloc(32, 7).toString('base64').replace('=', '')}`
  for (const [fingerprint, reason] of [
    ['nonsense', /no fingerprint/],
    [stranger, /fingerprint/],
  ] as const) {
    const refused = await command(['backup', 'init', location, ...key, '--sftp-fingerprint', fingerprint])
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, reason)
  }
  const known = [...key, '--sftp-fingerprint', sftp.fingerprint]
  const { uri } = await firstPlace(neap)
  await query(neap, uri, 'create table kept as select g as id from generate_series(1, 1000) g')
  const init = await command(['backup', 'init', location, ...known])
  assert.equal(init.code, 0, init.stderr)
  const ran = await command(['backup', 'run'])
  assert.equal(ran.code, 0, ran.stderr)
  const dataDir = newDataDir()
  const secret = { NEAP_BACKUP_PASSPHRASE: init.stdout.trim() }
  const restored = await neapRun(['restore', '--from', location, ...known], envOf(dataDir, { ...PROGRAM, ...secret }))
  if (restored.code !== 0) await leaveNothing(dataDir)
  assert.equal(restored.code, 0, restored.stderr)
  const other = await startNeap({ dataDir, env: PROGRAM })
  try {
    const there = other.ready.connection_uri ?? ''
    assert.deepEqual(await query(other, there, 'select count(*)::int as count from kept'), [{ count: 1000 }])
  } finally {
    await other.stop()
  }
})
