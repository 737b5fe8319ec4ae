import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { connect, createServer } from 'node:tls'
import { promisify } from 'node:util'
import { UsageError } from '../errors.ts'
import { type CertificateFiles, ensureCertificates } from './certificates.ts'

const names = { region: 'shore', domain: 'example.test' }
const run = promisify(execFile)
let dir: string

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'neap-tls-'))
})
afterEach(() => rm(dir, { recursive: true }))

test('openssl verifies the server strictly for each of its names and for no other', async (t) => {
  const { caFile, certFile } = await ensureCertificates(dir, names)
  const verify = (...check: string[]) =>
    run('openssl', ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', caFile, ...check, certFile])
  try {
    await run('openssl', ['version'])
  } catch {
    return t.skip('openssl is not installed')
  }
  for (const host of ['ep-calm-bay-1.shore.example.test', 'shore.example.test', 'example.test', 'localhost']) {
    assert.match((await verify('-verify_hostname', host)).stdout, /: OK/)
  }
  for (const ip of ['127.0.0.1', '::1']) assert.match((await verify('-verify_ip', ip)).stdout, /: OK/)
  await assert.rejects(verify('-verify_hostname', 'a.b.shore.example.test'))
  await assert.rejects(verify('-verify_hostname', 'other.test'))
})

test('a Node client that trusts the authority connects by name, by address, and with TLS 1.2', async () => {
  const files = await ensureCertificates(dir, names)
  const server = createServer({ cert: await readFile(files.certFile), key: await readFile(files.keyFile) })
  server.on('secureConnection', (socket) => socket.end()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const ca = await readFile(files.caFile)
  const reach = async (options: object) => {
    const socket = connect({ host: '127.0.0.1', port, ca, ...options })
    await once(socket, 'secureConnect')
    socket.destroy()
  }
  try {
    await reach({})
    await reach({ servername: 'ep-calm-bay-1.shore.example.test' })
    await reach({ servername: 'localhost', maxVersion: 'TLSv1.2' })
    await assert.rejects(reach({ servername: 'other.test' }), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
    await assert.rejects(reach({ ca: undefined }), { code: /SELF_SIGNED|UNABLE_TO/ })
  } finally {
    server.close()
    await once(server, 'close')
  }
})

test('keys are readable by their owner only, certificates by all, and no other file remains', async () => {
  await ensureCertificates(dir, names)
  const modes: Record<string, string> = {}
  for (const name of await readdir(dir)) modes[name] = ((await stat(join(dir, name))).mode & 0o777).toString(8)
  assert.deepEqual(modes, { 'ca.crt': '644', 'ca.key': '600', 'server.crt': '644', 'server.key': '600' })
})

test('a certificate is reissued when it lacks a name, and the authority is kept', async () => {
  const first = await read(await ensureCertificates(dir, names))
  assert.deepEqual(await read(await ensureCertificates(dir, names)), first)
  const moved = await read(await ensureCertificates(dir, { ...names, region: 'cliff' }))
  assert.equal(moved.ca, first.ca)
  assert.notEqual(moved.cert, first.cert)
  assert.match(new X509Certificate(moved.cert).subjectAltName ?? '', /\*\.cliff\.example\.test/)
})

test('parts with different settings agree on one certificate', async () => {
  const here = { ...names, hosts: { dns: ['here.test'], ip: ['2001:db8:0::7'] } }
  const there = { ...names, hosts: { dns: ['there.test'], ip: ['192.0.2.7'] } }
  await ensureCertificates(dir, here)
  const both = await read(await ensureCertificates(dir, there))
  assert.deepEqual(await read(await ensureCertificates(dir, here)), both)
  assert.deepEqual(await read(await ensureCertificates(dir, there)), both)
  const leaf = new X509Certificate(both.cert)
  assert.ok(leaf.checkHost('here.test') && leaf.checkHost('there.test'))
  assert.ok(leaf.checkIP('2001:db8::7') && leaf.checkIP('192.0.2.7'))
})

test('a certificate is renewed 30 days before it expires, and so is the authority', async (t) => {
  const days = 86_400_000
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const first = await read(await ensureCertificates(dir, names))
  t.mock.timers.setTime(Date.now() + 334 * days)
  assert.deepEqual(await read(await ensureCertificates(dir, names)), first)
  t.mock.timers.setTime(Date.now() + 2 * days)
  const renewed = await read(await ensureCertificates(dir, names))
  assert.equal(renewed.ca, first.ca)
  assert.notEqual(renewed.cert, first.cert)
  t.mock.timers.setTime(Date.now() + 19 * 365 * days)
  const replaced = await read(await ensureCertificates(dir, names))
  assert.notEqual(replaced.ca, first.ca)
  assert.ok(new X509Certificate(replaced.cert).verify(new X509Certificate(first.ca).publicKey), 'the key is the same')
})

test('concurrent callers agree on one authority, certificate and key', async () => {
  await Promise.all(Array.from({ length: 8 }, () => ensureCertificates(dir, names)))
  const { ca, cert, key } = await read(await ensureCertificates(dir, names))
  const leaf = new X509Certificate(cert)
  assert.ok(leaf.verify(new X509Certificate(ca).publicKey))
  assert.ok(leaf.checkPrivateKey(createPrivateKey(key)))
  assert.equal((await readdir(dir)).length, 4)
})

test('a damaged certificate is replaced; a damaged key is reported and kept', async () => {
  const { caFile, certFile, keyFile } = await ensureCertificates(dir, names)
  await writeFile(caFile, 'no certificate')
  await writeFile(certFile, '')
  const { ca, cert } = await read(await ensureCertificates(dir, names))
  assert.ok(new X509Certificate(cert).verify(new X509Certificate(ca).publicKey))
  await writeFile(keyFile, 'no key')
  await assert.rejects(ensureCertificates(dir, names), UsageError)
  assert.equal(await readFile(keyFile, 'utf8'), 'no key')
})

async function read({ caFile, certFile, keyFile }: CertificateFiles) {
  const [ca, cert, key] = await Promise.all([caFile, certFile, keyFile].map((file) => readFile(file, 'utf8')))
  return { ca: ca ?? '', cert: cert ?? '', key: key ?? '' }
}
