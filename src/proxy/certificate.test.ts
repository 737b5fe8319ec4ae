import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { connect, createServer } from 'node:tls'
import { log } from '../../test/proxy/fixture.ts'
import { ensureCertificates } from '../tls/certificates.ts'
import { followCertificate, readCertificate } from './certificate.ts'

const dir = await mkdtemp(join(tmpdir(), 'neap-certificate-'))
after(() => rm(dir, { recursive: true }))

test('a server that runs for longer than its certificate lasts has a new one in time', async (t) => {
  const current = () => ensureCertificates(dir, { region: 'local', domain: 'localhost' })
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 340 * 86_400_000 })
  const server = createServer(await readCertificate(current)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const stop = followCertificate(server, current, log, 20)
  t.after(() => {
    stop()
    server.close()
  })
  const old = await endOf(port)
  t.mock.timers.reset()
  while ((await endOf(port)) === old);
  assert.ok((await endOf(port)) > Date.now() + 300 * 86_400_000)
})

/** When the certificate ends that a client is shown. */
async function endOf(port: number): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { valid_to } = socket.getPeerCertificate()
  socket.destroy()
  return Date.parse(valid_to)
}
