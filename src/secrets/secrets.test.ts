import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { UsageError } from '../errors.ts'
import { scramVerifier } from '../postgres/scram_verifier.ts'
import { isWellFormedApiKey, newApiKey, newPassword } from './generated.ts'
import { loadOrCreateSecrets } from './secrets.ts'

let dir: string
let file: string

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'neap-secrets-'))
  file = join(dir, 'master.key')
})
afterEach(() => rm(dir, { recursive: true }))

test('concurrent creations of the master key agree on one key', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => loadOrCreateSecrets(file)))
  const sealed = all[0]?.encrypt('password', 'the tide turns', 'role 1') ?? Buffer.alloc(0)
  for (const secrets of all) {
    assert.equal(secrets.decrypt('password', sealed, 'role 1'), 'the tide turns')
    assert.equal(secrets.catalogPasswords()[0], all[0]?.catalogPasswords()[0])
    assert.deepEqual(secrets.hashApiKey('k')[0], all[0]?.hashApiKey('k')[0])
  }
  assert.deepEqual(await readdir(dir), ['master.key'])
  assert.equal((await stat(file)).mode & 0o777, 0o600)
})

test('a master key file with open permissions, a wrong size or an error is refused and kept', async () => {
  await loadOrCreateSecrets(file)
  await chmod(file, 0o640)
  await assert.rejects(loadOrCreateSecrets(file), { name: 'UsageError', message: /chmod 600/ })
  await chmod(file, 0o600)
  await writeFile(file, randomBytes(31))
  await assert.rejects(loadOrCreateSecrets(file), { name: 'UsageError', message: /31 bytes/ })
  assert.equal((await readFile(file)).length, 31)
  await assert.rejects(loadOrCreateSecrets(dir), UsageError)
  await assert.rejects(loadOrCreateSecrets(join(dir, 'no', 'such', 'folder')), UsageError)
})

test('a master key file of JSON without keys is reported as damaged', async () => {
  for (const text of [
    'null',
    '{}',
    '{"generations":5}',
    '{"generations":[null]}',
    '{"generations":[{"state":"current","master":7}]}',
  ]) {
    await writeFile(file, text, { mode: 0o600 })
    await assert.rejects(loadOrCreateSecrets(file), { name: 'UsageError', message: /is damaged/ }, text)
  }
})

test('a master key file of the first format, with bare base64 bytes, is read', async () => {
  const secrets = await loadOrCreateSecrets(file)
  const ring: unknown = JSON.parse(
    await readFile(file, 'utf8'),
    (_name, value: { bytes?: unknown } | null) => value?.bytes ?? value,
  )
  await writeFile(file, JSON.stringify(ring))
  assert.deepEqual((await loadOrCreateSecrets(file)).catalogPasswords(), secrets.catalogPasswords())
})

test('a ciphertext decrypts only with its context, its key and every bit unchanged', async () => {
  const secrets = await loadOrCreateSecrets(file)
  for (const text of ['', 'npg_secret', 'Ebbe und Flut 🌊'.repeat(100)]) {
    assert.equal(secrets.decrypt('password', secrets.encrypt('password', text, 'role 1'), 'role 1'), text)
  }
  const sealed = secrets.encrypt('password', 'npg_secret', 'role 1')
  assert.notDeepEqual(secrets.encrypt('password', 'npg_secret', 'role 1'), sealed)
  assert.throws(() => secrets.decrypt('password', sealed, 'role 2'))
  for (let at = 0; at < sealed.length; at++) {
    const flipped = Buffer.from(sealed)
    flipped.writeUInt8(flipped.readUInt8(at) ^ 1, at)
    assert.throws(() => secrets.decrypt('password', flipped, 'role 1'), `byte ${at}`)
    assert.throws(() => secrets.decrypt('password', sealed.subarray(0, at), 'role 1'), `cut at ${at}`)
  }
  const other = await loadOrCreateSecrets(join(dir, 'other.key'))
  assert.throws(() => other.decrypt('password', sealed, 'role 1'))
  assert.notDeepEqual(other.hashApiKey('k')[0], secrets.hashApiKey('k')[0])
  assert.notEqual(other.catalogPasswords()[0], secrets.catalogPasswords()[0])
})

test('API keys have their format and differ, and a key with one changed character is malformed', () => {
  const keys = Array.from({ length: 500 }, newApiKey)
  assert.equal(new Set(keys).size, keys.length)
  for (const key of keys) {
    assert.match(key, /^neap_[0-9A-Za-z]{49}$/)
    assert.ok(isWellFormedApiKey(key))
  }
  const key = newApiKey()
  for (let at = 0; at < key.length; at++) {
    const wrong = key.slice(0, at) + (key[at] === 'x' ? 'y' : 'x') + key.slice(at + 1)
    assert.ok(!isWellFormedApiKey(wrong), wrong)
  }
  for (const wrong of ['', key.slice(1), key.slice(0, -1), `${key}0`, `${key}\n`, key.toUpperCase()]) {
    assert.ok(!isWellFormedApiKey(wrong), JSON.stringify(wrong))
  }
})

test('passwords are a prefix and random letters and digits, and differ', () => {
  const passwords = Array.from({ length: 500 }, newPassword)
  assert.equal(new Set(passwords).size, passwords.length)
  for (const password of passwords) assert.match(password, /^npg_[0-9A-Za-z]{22}$/)
})

test('the verifier matches RFC 7677, section 3', async () => {
  // StoredKey and ServerKey as they follow from the password, salt and iterations of the example there.
  const salt = Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64')
  assert.equal(
    await scramVerifier('pencil', { iterations: 4096, salt }),
    'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==' +
      '$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=',
  )
  assert.notEqual(await scramVerifier('pencil'), await scramVerifier('pencil'))
  await assert.rejects(scramVerifier('Bleistift™'), RangeError)
})
