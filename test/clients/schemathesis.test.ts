import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Neap, run, startNeap } from '../neap.ts'
import { peer, withoutPeers } from './peers.ts'

/*
 * Schemathesis sends valid and invalid requests of the OpenAPI document, with a fixed seed: no answer may be a 5xx, or
 * have a status, a content type or a body that the document does not declare. PEER_EXAMPLES sets the number of requests
 * per operation.
 */

const ST = 'python/bin/st'
const EXAMPLES = process.env['PEER_EXAMPLES'] ?? '3'
const CHECKS = 'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance'

let neap: Neap

before(async () => {
  neap = await startNeap({ env: { NEAP_RATE_LIMIT_PER_MINUTE: '1000000' } })
})

after(() => neap?.stop())

test('generated requests get documented answers, and never a 5xx', { skip: withoutPeers(ST) }, async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'neap-schemathesis-'))
  t.after(() => rmSync(home, { recursive: true }))
  const { api_url, api_key } = neap.ready
  const bounded = [
    '--seed',
    '1',
    '--max-examples',
    EXAMPLES,
    '--phases',
    'examples,fuzzing',
    '--workers',
    '1',
    '--no-shrink',
  ]
  const header = ['-H', `Authorization: Bearer ${api_key}`]
  const args = ['run', `${api_url}/openapi.json`, '--checks', CHECKS, ...bounded, ...header, '--no-color']
  // Event streams end only with their client, and a generated id may be that of the key in use.
  const without = ['--exclude-path-regex', String.raw`/stream$|/api_keys/\{`, '--generation-database', 'none']
  const env = { PATH: process.env['PATH'], HOME: home, PYTHONDONTWRITEBYTECODE: '1' }
  const { code, stdout, stderr } = await run(peer(ST), [...args, ...without], env)
  assert.equal(code, 0, `${stdout}${stderr}`)
  t.diagnostic(stdout.trim().split('\n').slice(-12).join('\n'))
})
