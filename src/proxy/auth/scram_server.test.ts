import assert from 'node:assert/strict'
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto'
import { test } from 'node:test'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import { scramClient } from '../connect/scram_client.ts'
import { SCRAM, SCRAM_PLUS } from '../wire/scram.ts'
import { scramServer } from './scram_server.ts'
import { mockVerifier, parseVerifier, type Verifier } from './verifier.ts'

/* The example of RFC 7677, section 3. */
const NONCES = ['rOprNGfwEbeRWgbNEkqO', '%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0'] as const
const CLIENT_FIRST = `n,,n=user,r=${NONCES[0]}`
const SERVER_FIRST = `r=${NONCES.join('')},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`
const CLIENT_FINAL = `c=biws,r=${NONCES.join('')},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=`
const SERVER_FINAL = 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4='

const verifierOf = async (password: string, salt: string): Promise<Verifier> =>
  parseVerifier(await scramVerifier(password, { salt: Buffer.from(salt, 'base64') })) ?? assert.fail('no verifier')

const example = () => verifierOf('pencil', 'W22ZaJ0SNY7soEsUEjb6gQ==')

test('the example of RFC 7677, and the key that it brings to light', async () => {
  const verifier = await example()
  const server = scramServer(verifier, undefined, NONCES[1])
  assert.equal(server.challenge(SCRAM, CLIENT_FIRST), SERVER_FIRST)
  const verified = server.verify(CLIENT_FINAL)
  assert.ok(typeof verified === 'object')
  assert.equal(verified.serverFinal, SERVER_FINAL)
  const salted = pbkdf2Sync('pencil', verifier.salt, 4096, 32, 'sha256')
  assert.deepEqual(verified.keys.clientKey, createHmac('sha256', salted).update('Client Key').digest())
  assert.deepEqual(createHash('sha256').update(verified.keys.clientKey).digest(), verifier.storedKey)
})

test('with the keys alone one logs in, and sees that the server is the right one', async () => {
  const server = scramServer(await example(), undefined, NONCES[1])
  server.challenge(SCRAM, CLIENT_FIRST)
  const known = server.verify(CLIENT_FINAL)
  assert.ok(typeof known === 'object')
  const compute = scramServer(await example(), undefined)
  const client = scramClient()
  const proof = client.prove(compute.challenge(SCRAM, client.first) ?? '', known.keys)
  const end = compute.verify(proof ?? '')
  assert.ok(typeof end === 'object')
  assert.ok(client.isServer(end.serverFinal))
  assert.equal(client.isServer(SERVER_FINAL), false)
  assert.equal(client.prove('r=another,s=AAAA,i=1', known.keys), undefined)
})

test('a wrong proof, another nonce, another channel', async () => {
  const wrong = (clientFinal: string, first = CLIENT_FIRST, binding?: Buffer, mechanism = SCRAM) => {
    const server = scramServer(verifier, binding, NONCES[1])
    return server.challenge(mechanism, first) === undefined ? 'no challenge' : server.verify(clientFinal)
  }
  const verifier = await example()
  assert.equal(wrong(CLIENT_FINAL.replace('p=dH', 'p=aH')), 'wrong')
  assert.equal(wrong(CLIENT_FINAL.replace(NONCES[1], 'x')), undefined)
  assert.equal(wrong('c=biws,r=,p='), undefined)
  assert.equal(wrong(CLIENT_FINAL, `p=tls-server-end-point,,n=,r=a`), 'no challenge')
  const binding = Buffer.alloc(32, 7)
  assert.equal(wrong(CLIENT_FINAL, CLIENT_FIRST.replace('n,,', 'y,,'), binding), 'no challenge')
  assert.equal(wrong(CLIENT_FINAL, CLIENT_FIRST, binding, SCRAM_PLUS), 'no challenge')
  assert.equal(wrong(CLIENT_FINAL, `p=tls-unique,,n=,r=a`, binding, SCRAM_PLUS), 'no challenge')
  assert.equal(
    wrong(CLIENT_FINAL, CLIENT_FIRST.replace('n,,', 'p=tls-server-end-point,,'), binding, SCRAM_PLUS),
    'wrong',
  )
})

test('what is no verifier is none, and a role that there is not has the same salt each time', () => {
  for (const text of ['md5d41d8cd98f00b204e9800998ecf8427e', '', 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA'])
    assert.equal(parseVerifier(text), undefined)
  const secret = Buffer.from('secret')
  assert.deepEqual(mockVerifier(secret, 'ep bob').salt, mockVerifier(secret, 'ep bob').salt)
  assert.notDeepEqual(mockVerifier(secret, 'ep bob').salt, mockVerifier(secret, 'ep ann').salt)
  assert.notDeepEqual(mockVerifier(secret, 'ep bob').salt, mockVerifier(Buffer.from('other'), 'ep bob').salt)
})
