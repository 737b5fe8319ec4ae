import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { envOf, neapRun } from '../neap.ts'
import { withoutOrdinaryUser } from '../ordinary_user.ts'

/*
 * Another local user has created the configured data directory inside a world-writable one. Its owner could replace the
 * key and Postgres' programs in it.
 */

const NOBODY = 65534
const skip = withoutOrdinaryUser()
let base: string

before(() => {
  base = mkdtempSync(join(tmpdir(), 'neap-owner-'))
  chmodSync(base, 0o711)
})

after(() => rmSync(base, { recursive: true }))

const up = (dataDir: string, env: NodeJS.ProcessEnv = {}) =>
  neapRun(['up', '--json', '--no-project', '--api-port', '0', '--proxy-port', '0'], envOf(dataDir, env))

test('a data directory of another user is refused', { skip }, async () => {
  const dataDir = join(base, 'theirs')
  mkdirSync(dataDir)
  chmodSync(dataDir, 0o777)
  chownSync(dataDir, NOBODY, NOBODY)
  const { code, stderr } = await up(dataDir)
  assert.equal(code, 1)
  assert.match(stderr, /belongs to another user \(uid 65534\): .*--data-dir/)
  assert.deepEqual([readdirSync(dataDir), statSync(dataDir).mode & 0o777], [[], 0o777])
})

test('a link of another user to a data directory is refused', { skip }, async () => {
  const [private_, link] = [join(base, 'private'), join(base, 'run')]
  mkdirSync(private_, { mode: 0o700 })
  symlinkSync(private_, link)
  lchownSync(link, NOBODY, NOBODY)
  const attempts = [() => up(join(base, 'data'), { NEAP_RUNTIME_DIR: link }), () => up(link)]
  for (const attempt of attempts) {
    const { code, stderr } = await attempt()
    assert.equal(code, 1)
    assert.match(stderr, /belongs to another user/)
    assert.equal(statSync(private_).mode & 0o777, 0o700)
  }
})
