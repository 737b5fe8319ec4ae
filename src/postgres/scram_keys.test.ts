import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientKeyOf, hmac, saltPassword, serverKeyOf, storedKeyOf } from './scram_keys.ts'

/* The example of RFC 7677, section 3. */
const SALT = Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64')
const CLIENT_FIRST_BARE = 'n=user,r=rOprNGfwEbeRWgbNEkqO'
const NONCE = 'rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0'
const MESSAGE = `${CLIENT_FIRST_BARE},r=${NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=${NONCE}`

test('the keys of a password give the proof and the signature of RFC 7677', async () => {
  const salted = await saltPassword('pencil', SALT, 4096)
  const clientKey = clientKeyOf(salted)
  const clientSignature = hmac(storedKeyOf(clientKey), MESSAGE)
  const proof = clientKey.map((byte, index) => byte ^ (clientSignature[index] ?? 0))
  assert.equal(Buffer.from(proof).toString('base64'), 'dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=')
  assert.equal(hmac(serverKeyOf(salted), MESSAGE).toString('base64'), '6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=')
})

test('password, salt and iterations each change the keys', async () => {
  const derivations = [
    saltPassword('pencil', SALT, 4096),
    saltPassword('pencils', SALT, 4096),
    saltPassword('pencil', Buffer.alloc(16), 4096),
    saltPassword('pencil', SALT, 4097),
  ]
  const derived = await Promise.all(derivations)
  assert.equal(new Set(derived.map((salted) => clientKeyOf(salted).toString('hex'))).size, 4)
  assert.equal(new Set(derived.map((salted) => serverKeyOf(salted).toString('hex'))).size, 4)
})
