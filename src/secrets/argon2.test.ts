import assert from 'node:assert/strict'
import { test } from 'node:test'
import { argon2Hash, matchesArgon2Hash, NO_PASSWORD_HASH } from './argon2.ts'

test('a hash matches its own password only, and is new each time', async () => {
  const hash = await argon2Hash('correct horse battery')
  assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
  assert.notEqual(await argon2Hash('correct horse battery'), hash)
  assert.equal(await matchesArgon2Hash('correct horse battery', hash), true)
  assert.equal(await matchesArgon2Hash('correct horse batterx', hash), false)
  assert.equal(await matchesArgon2Hash('', NO_PASSWORD_HASH), false)
})

test('characters composed differently are the same password', async () => {
  assert.equal(
    await matchesArgon2Hash('caf\u00e9 au lait, s.v.p.', await argon2Hash('cafe\u0301 au lait, s.v.p.')),
    true,
  )
})

test('hashes with other parameters are read by their own', async () => {
  // Made by the reference implementation (argon2 20190702): echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1
  const hash = '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc'
  assert.equal(await matchesArgon2Hash('password', hash), true)
})
