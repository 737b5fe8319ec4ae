import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { type TestContext, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { issueAuthority, issueServer, newKey } from '../tls/issue.ts'
import { cidrList } from '../network.ts'
import { post } from './post.ts'

const reach = { allowed: cidrList(['127.0.0.0/8']), timeoutMs: 10_000 }

async function listening(t: TestContext, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}

async function answering(t: TestContext, answer: RequestListener) {
  const server = createServer(answer)
  t.after(() => server.closeAllConnections())
  return `http://127.0.0.1:${await listening(t, server)}/`
}

test('a long answer is truncated, and a slow one is kept as far as it came', async (t) => {
  const long = await answering(t, (_, response) => void response.writeHead(200).end('x'.repeat(100_000)))
  assert.equal((await post(long, {}, '{}', reach)).text.length, 4096)
  const slow = await answering(t, (_, response) => void response.writeHead(201).write('one\0'))
  assert.deepEqual(await post(slow, {}, '{}', { ...reach, timeoutMs: 300 }), { status: 201, text: 'one\ufffd' })
})

test('a redirect is a final answer and is not followed', async (t) => {
  let asked = 0
  const there = await answering(t, (_, response) => {
    asked++
    response.end()
  })
  for (const status of [301, 302, 303, 307, 308]) {
    const here = await answering(t, (_, response) => void response.writeHead(status, { location: there }).end())
    assert.equal((await post(here, {}, '{}', reach)).status, status)
  }
  assert.equal(asked, 0)
})

test('errors are reported without internal details', async (t) => {
  const closed = createServer()
  const port = await listening(t, closed)
  closed.close()
  await assert.rejects(post(`http://127.0.0.1:${port}/`, {}, '{}', reach), /^NotDelivered: the connection was refused$/)
  const mute = await listening(
    t,
    createTcpServer((socket) => socket.end('SSH-2.0-x\r\n')),
  )
  await assert.rejects(
    post(`http://127.0.0.1:${mute}/`, {}, '{}', reach),
    /^NotDelivered: what answered did not speak HTTP$/,
  )
  const torn = await listening(
    t,
    createTcpServer((socket) => socket.destroy()),
  )
  await assert.rejects(post(`http://127.0.0.1:${torn}/`, {}, '{}', reach), /^NotDelivered: the connection failed$/)
  // No certificate at all: no cipher in common.
  const bare = await listening(t, createTlsServer({}))
  await assert.rejects(
    post(`https://127.0.0.1:${bare}/`, {}, '{}', reach),
    /^NotDelivered: no secure connection \(\w+\)$/,
  )
})

test('a webhook is sent over TLS only to a receiver that its certificate verifies', async (t) => {
  const authority = { key: await newKey(), certificate: '' }
  authority.certificate = await issueAuthority(authority.key)
  const key = await newKey()
  const cert = await issueServer(key, { dns: ['secure.test'], ip: [] }, authority)
  let asked = 0
  const server = createTlsServer({ key, cert }, (_, response) => {
    asked++
    response.end('heard')
  })
  const port = await listening(t, server)
  const send = (name: string) =>
    post(`https://${name}:${port}/`, {}, '{}', { ...reach, resolve: async () => [{ address: '127.0.0.1', family: 4 }] })
  await assert.rejects(send('secure.test'), /no secure connection \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\)/)
  const usual = getCACertificates('default')
  t.after(() => setDefaultCACertificates(usual))
  setDefaultCACertificates([authority.certificate])
  assert.deepEqual(await send('secure.test'), { status: 200, text: 'heard' })
  await assert.rejects(send('other.test'), /no secure connection \(ERR_TLS_CERT_ALTNAME_INVALID\)/)
  assert.equal(asked, 1)
})
