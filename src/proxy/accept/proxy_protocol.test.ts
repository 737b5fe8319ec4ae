import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { ClientGone, ProxyError } from '../wire/errors.ts'
import { readProxyHeader } from './proxy_protocol.ts'

const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex')

function version2(command: number, family: number, body: Buffer): Buffer {
  const size = Buffer.alloc(2)
  size.writeUInt16BE(body.length)
  return Buffer.concat([SIGNATURE, Buffer.from([command, family]), size, body])
}

const V4 = Buffer.from([192, 0, 2, 1, 198, 51, 100, 1, 0, 80, 21, 56])
const V6 = Buffer.concat([Buffer.from('20010db8000000000000000000000001', 'hex'), Buffer.alloc(20)])

/** Reads a header sent in pieces of `size` bytes. Returns the address and the bytes after the header. */
async function read(bytes: Buffer | string, size: number): Promise<{ address: string | undefined; rest: string }> {
  const socket = new PassThrough()
  const all = Buffer.from(bytes as string, 'latin1')
  const reading = readProxyHeader(socket, 1_000)
  for (let at = 0; at < all.length; at += size) socket.write(all.subarray(at, at + size))
  const address = await reading
  await new Promise(setImmediate)
  return { address, rest: ((socket.read() as Buffer | null) ?? '').toString('latin1') }
}

test('the address is read, however the header is cut, and what follows is left', async () => {
  for (const size of [1, 7, 1_000]) {
    for (const [header, address] of [
      [version2(0x21, 0x11, V4), '192.0.2.1'],
      [version2(0x21, 0x11, Buffer.concat([V4, Buffer.from([4, 0, 1, 0])])), '192.0.2.1'],
      [version2(0x21, 0x21, V6), '2001:db8:0:0:0:0:0:1'],
      [version2(0x20, 0x00, Buffer.alloc(0)), undefined],
      [version2(0x20, 0x11, V4), undefined],
      [version2(0x21, 0x31, Buffer.alloc(216)), undefined],
      [Buffer.from('PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n'), '192.0.2.1'],
      [Buffer.from('PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n'), '2001:db8::1'],
      [Buffer.from('PROXY UNKNOWN\r\n'), undefined],
    ] as const) {
      const found = await read(Buffer.concat([header, Buffer.from('rest')]), size)
      assert.deepEqual(found, { address, rest: 'rest' }, `${header.toString('hex')} in pieces of ${size}`)
    }
  }
})

test('anything else is refused, and no more is waited for than a header has', async () => {
  for (const wrong of [
    Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]),
    Buffer.from([0x16, 3, 1]),
    Buffer.from('GET / HTTP/1.1\r\n'),
    Buffer.from('PROXY TCP4 192.0.2.1\r\n'),
    Buffer.from('PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n'),
    Buffer.from('PROXIES\r\n'),
    Buffer.alloc(107, 'P'),
    version2(0x22, 0x11, V4),
    version2(0x31, 0x11, V4),
    version2(0x21, 0x11, V4.subarray(0, 8)),
    version2(0x21, 0x21, V4),
    Buffer.concat([SIGNATURE, Buffer.from([0x21, 0x11, 0xff, 0xff])]),
  ])
    await assert.rejects(
      read(wrong, 1),
      (error) => error instanceof ProxyError && error.reason === 'malformed',
      wrong.toString('latin1'),
    )
})

test('a connection that ends before its header is over is gone', async () => {
  const socket = new PassThrough()
  const reading = readProxyHeader(socket, 1_000)
  socket.end('PROXY TCP4')
  await assert.rejects(reading, ClientGone)
})
