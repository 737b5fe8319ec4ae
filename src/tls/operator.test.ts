import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { UsageError } from '../errors.ts'
import { ensureCertificates } from './certificates.ts'
import { newKey } from './issue.ts'
import { objectionsTo, operatorFiles, type PairFiles, readPair } from './operator.ts'

const dir = await mkdtemp(join(tmpdir(), 'neap-operator-'))
after(() => rm(dir, { recursive: true }))

const refused = (files: PairFiles, why: RegExp) =>
  assert.rejects(readPair(files), (error) => error instanceof UsageError && why.test(error.message))

test('the certificate and the key are set together, or both are unset', () => {
  assert.equal(operatorFiles({ tlsCert: undefined, tlsKey: undefined }), undefined)
  assert.deepEqual(operatorFiles({ tlsCert: 'a', tlsKey: 'b' }), { certFile: 'a', keyFile: 'b' })
  const one = (tlsCert: string | undefined, tlsKey: string | undefined) => () => operatorFiles({ tlsCert, tlsKey })
  assert.throws(one('a', undefined), /NEAP_TLS_CERT is set and NEAP_TLS_KEY is not/)
  assert.throws(one(undefined, 'b'), /NEAP_TLS_KEY is set and NEAP_TLS_CERT is not/)
})

test('unusable certificate files are refused by name', async () => {
  const { certFile, keyFile, caFile } = await ensureCertificates(dir, { region: 'local', domain: 'localhost' })
  assert.deepEqual(Object.keys(await readPair({ certFile, keyFile })), ['cert', 'key'])
  const other = join(dir, 'other.key')
  await writeFile(other, await newKey())
  await refused({ certFile, keyFile: other }, /key in .*other\.key does not fit the first certificate in .*server\.crt/)
  await refused({ certFile: caFile, keyFile }, /does not fit/)
  await refused({ certFile: keyFile, keyFile }, /server\.key holds no certificate in PEM/)
  await refused({ certFile, keyFile: certFile }, /server\.crt holds no private key in PEM/)
  await refused({ certFile, keyFile: join(dir, 'none') }, /none cannot be read: ENOENT/)
})

test('a certificate with other names, or an expired one, is served with a warning', async (t) => {
  const files = await ensureCertificates(dir, { region: 'local', domain: 'localhost' })
  const pair = await readPair(files)
  assert.deepEqual(objectionsTo(pair, files, 'ep-x.local.localhost'), [])
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 400 * 86_400_000 })
  const [names, end] = objectionsTo(pair, files, 'ep-x.shore.example')
  assert.match(names ?? '', /server\.crt is not made out to \*\.shore\.example, but to DNS:\*\.local\.localhost/)
  assert.match(end ?? '', /server\.crt has ended, 20/)
})
