import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test, type TestContext } from 'node:test'
import { connect, createServer } from 'node:tls'
import { pino } from 'pino'
import {
  byOptions,
  connect as connectPg,
  DOMAIN,
  log,
  makeFixture,
  NO_PSQL,
  psql,
  until,
} from '../../test/proxy/fixture.ts'
import { ensureCertificates } from './certificates.ts'
import { issueAuthority, issueServer, newKey } from './issue.ts'
import type { PairFiles } from './operator.ts'
import { type CurrentCertificate, followCertificate, readCertificate } from './follow.ts'

const dir = await mkdtemp(join(tmpdir(), 'neap-certificate-'))
after(() => rm(dir, { recursive: true }))

const HOUR_MS = 3_600_000

/** A server that follows a certificate, and the certificate that a client gets. */
async function serverOf(t: TestContext, current: CurrentCertificate, { everyMs = HOUR_MS, logged = log } = {}) {
  const first = await readCertificate(current)
  const server = createServer(first).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const stop = followCertificate([server], current, first, logged, everyMs)
  t.after(() => {
    stop()
    server.close()
  })
  return async () => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    const { valid_to: ends, issuerCertificate } = socket.getPeerCertificate(true)
    socket.destroy()
    return { ends: Date.parse(ends), authority: issuerCertificate?.fingerprint256 }
  }
}

/** Certificate and key by an authority of their own, in a new directory. */
async function newPair(name: string): Promise<PairFiles & { readonly caFile: string }> {
  const files = {
    caFile: join(dir, name, 'ca.crt'),
    certFile: join(dir, name, 'tls.crt'),
    keyFile: join(dir, name, 'tls.key'),
  }
  await mkdir(join(dir, name))
  const [authorityKey, key] = await Promise.all([newKey(), newKey()])
  const authority = { certificate: await issueAuthority(authorityKey), key: authorityKey }
  const leaf = await issueServer(key, { dns: ['localhost', `*.${DOMAIN}`], ip: ['127.0.0.1'] }, authority)
  await Promise.all([
    writeFile(files.caFile, authority.certificate),
    writeFile(files.certFile, leaf + authority.certificate),
    writeFile(files.keyFile, key),
  ])
  return files
}

test('a running server renews its certificate before it expires', async (t) => {
  const current = () => ensureCertificates(join(dir, 'own'), { region: 'local', domain: 'localhost' })
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 340 * 86_400_000 })
  const shown = await serverOf(t, current, { everyMs: 20 })
  const { ends: old } = await shown()
  t.mock.timers.reset()
  const { ends } = await until(async () => {
    const now = await shown()
    return now.ends !== old && now
  })
  assert.ok(ends > Date.now() + 300 * 86_400_000)
})

test('a new certificate and key are served whether renamed or mounted into place', async (t) => {
  const [one, two] = await Promise.all([newPair('one'), newPair('two')])
  const pointTo = async (target: string, link: string) => {
    await symlink(target, `${link}.new`)
    await rename(`${link}.new`, link)
  }
  const ways: Record<string, { files: PairFiles; put: (pair: PairFiles) => Promise<unknown> }> = {
    // Files are written under other names and renamed.
    renamed: {
      files: { certFile: join(dir, 'renamed', 'a.crt'), keyFile: join(dir, 'renamed', 'a.key') },
      put: async ({ certFile, keyFile }) => {
        await symlink(certFile, join(dir, 'renamed', 'next.crt'))
        await symlink(keyFile, join(dir, 'renamed', 'next.key'))
        await rename(join(dir, 'renamed', 'next.crt'), join(dir, 'renamed', 'a.crt'))
        await rename(join(dir, 'renamed', 'next.key'), join(dir, 'renamed', 'a.key'))
      },
    },
    // As Kubernetes mounts a secret: the files are links through a directory that is a link.
    mounted: {
      files: { certFile: join(dir, 'mounted', 'tls.crt'), keyFile: join(dir, 'mounted', 'tls.key') },
      put: async ({ certFile }) => {
        await pointTo(join(certFile, '..'), join(dir, 'mounted', '..data'))
        for (const name of ['tls.crt', 'tls.key'])
          await symlink(join('..data', name), join(dir, 'mounted', name)).catch(() => {})
      },
    },
  }
  for (const [name, { files, put }] of Object.entries(ways)) {
    await mkdir(join(dir, name))
    await put(one)
    const shown = await serverOf(t, async () => files)
    const { authority } = await shown()
    await put(two)
    await until(async () => (await shown()).authority !== authority)
  }
})

test('a mismatched pair is logged, and the current one is served until a pair matches', async (t) => {
  const [mine, other] = await Promise.all([newPair('mine'), newPair('other')])
  const { promise: complaint, resolve } = Promise.withResolvers<string>()
  const shown = await serverOf(t, async () => mine, { logged: pino({ level: 'error' }, { write: resolve }) })
  const { authority } = await shown()
  await rename(other.certFile, mine.certFile)
  assert.match(await complaint, /The key in .*tls\.key does not fit the first certificate in .*tls\.crt/)
  assert.equal((await shown()).authority, authority)
  await rename(other.keyFile, mine.keyFile)
  await until(async () => (await shown()).authority !== authority)
})

test(
  'clients with verify-full and channel binding connect before and after a swap; sessions go on',
  { skip: NO_PSQL },
  async (t) => {
    const fixture = await makeFixture()
    t.after(() => fixture.close())
    const [before, next] = await Promise.all([newPair('before'), newPair('next')])
    const proxy = await fixture.proxy({ certificate: async () => before })
    const endpoint = await fixture.endpoint(await fixture.compute.start())
    const enters = async (caFile: string) => {
      const strict = `sslmode=verify-full sslrootcert=${caFile} channel_binding=require`
      return (await psql(byOptions(proxy.port, endpoint, strict), 'select 1')).stdout === '1'
    }
    const firstAuthority = join(dir, 'first.crt')
    await writeFile(firstAuthority, '')
    await rename(before.caFile, firstAuthority)
    const session = await connectPg(proxy.port, endpoint)
    assert.deepEqual([await enters(firstAuthority), await enters(next.caFile)], [true, false])
    await rename(next.certFile, before.certFile)
    await rename(next.keyFile, before.keyFile)
    await until(() => enters(next.caFile))
    assert.equal(await enters(firstAuthority), false)
    assert.equal((await session.query('select 1')).rowCount, 1)
    await session.end()
  },
)
