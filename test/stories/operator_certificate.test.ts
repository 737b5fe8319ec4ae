import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { issueAuthority, issueServer, newKey } from '../../src/tls/issue.ts'
import { conninfo, psql, without } from '../clients.ts'
import { envOf, neapRun, newDataDir, startNeap } from '../neap.ts'
import { firstPlace } from '../project.ts'

/* An operator's certificate, for a domain of theirs. */

test("clients verify an operator's certificate, and Neap's own authority is not shown", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'neap-operator-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const [authorityKey, key] = await Promise.all([newKey(), newKey()])
  const authority = { certificate: await issueAuthority(authorityKey), key: authorityKey }
  const files = { ca: join(dir, 'ca.crt'), cert: join(dir, 'tls.crt'), key: join(dir, 'tls.key') }
  writeFileSync(files.ca, authority.certificate)
  writeFileSync(files.cert, await issueServer(key, { dns: ['*.shore.neap.invalid'], ip: [] }, authority))
  writeFileSync(files.key, key)
  const env = {
    NEAP_TLS_CERT: files.cert,
    NEAP_TLS_KEY: files.key,
    NEAP_REGION: 'shore',
    NEAP_DOMAIN: 'neap.invalid',
  }
  const dataDir = newDataDir()
  const neap = await startNeap({ dataDir, env })
  t.after(() => neap.stop())
  assert.equal(neap.ready.ca_file, null)
  const { uri, endpoint_id } = await firstPlace(neap)
  const own = await neapRun(['psql', uri, '-c', 'select 6 * 7 as answer'], envOf(dataDir, env))
  assert.deepEqual([own.code, own.stdout], [0, 'answer\n42\n(1 row)\n'], own.stderr)
  if (without('psql')) return
  const host = { host: `${endpoint_id}.shore.neap.invalid`, hostaddr: '127.0.0.1' }
  const strict = { ...host, sslmode: 'verify-full', sslrootcert: files.ca, channel_binding: 'require' }
  assert.deepEqual(await psql(conninfo(uri, strict), 'select 1'), { code: 0, stdout: '1', stderr: '' })
})
