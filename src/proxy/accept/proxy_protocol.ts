/*
 * The header in which a forwarder states the client of a connection, before its first byte (HAProxy's document "The
 * PROXY protocol", versions 1 and 2).
 */
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { ProxyError } from '../wire/errors.ts'
import { type Frame, readFrame } from '../wire/packet.ts'

/** Section 2.2: no packet of Postgres and no TLS record begins with it. */
const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const HEAD_BYTES = 16
/** Limit of addresses and extensions by forwarders. Two addresses of Unix sockets have 216 bytes. */
const MAX_BODY_BYTES = 4_096
/** Section 2.1: the longest line of version 1, including its end. */
const MAX_LINE_BYTES = 107

const [LOCAL, PROXY] = [0x20, 0x21] as const
const [IPV4, IPV6] = [0x1, 0x2] as const
/** Length of two addresses and two ports. */
const ADDRESS_BYTES: Readonly<Record<number, number>> = { [IPV4]: 12, [IPV6]: 36 }

/**
 * Reads the header, and leaves the socket paused behind it. Returns the client's IP address; undefined when the
 * forwarder connects for itself, as in a health check, or the client has no IP address.
 * Errors: malformed, too_slow after `ms`, ClientGone.
 */
export function readProxyHeader(socket: Duplex, ms: number): Promise<string | undefined> {
  return readFrame(socket, ms, (bytes) => headerAt(bytes)).then(({ address }) => address)
}

interface Header {
  readonly address: string | undefined
}

function headerAt(bytes: Buffer): Frame<Header> | ProxyError | undefined {
  if (bytes[0] === 0x50) return lineAt(bytes)
  const seen = bytes.subarray(0, SIGNATURE.length)
  if (!seen.equals(SIGNATURE.subarray(0, seen.length))) return malformed('the PROXY protocol is required from here')
  if (bytes.length < HEAD_BYTES) return undefined
  const [command = 0, family = 0] = bytes.subarray(SIGNATURE.length)
  const size = bytes.readUInt16BE(14)
  if (size > MAX_BODY_BYTES || (command !== LOCAL && command !== PROXY)) return malformed('invalid PROXY header')
  const length = HEAD_BYTES + size
  if (bytes.length < length) return undefined
  const body = bytes.subarray(HEAD_BYTES, length)
  if (command === LOCAL || !(family >> 4 in ADDRESS_BYTES)) return { value: { address: undefined }, length }
  return body.length < (ADDRESS_BYTES[family >> 4] ?? 0)
    ? malformed('invalid PROXY header')
    : { value: { address: addressIn(body, family >> 4) }, length }
}

/** The source address, which comes first, in network byte order. */
function addressIn(body: Buffer, family: number): string {
  if (family === IPV4) return body.subarray(0, 4).join('.')
  return Array.from({ length: 8 }, (_, index) => body.readUInt16BE(2 * index).toString(16)).join(':')
}

/** `PROXY TCP4 <source> <destination> <port> <port>`, or `PROXY UNKNOWN` and any text. */
function lineAt(bytes: Buffer): Frame<Header> | ProxyError | undefined {
  const end = bytes.subarray(0, MAX_LINE_BYTES).indexOf('\r\n')
  if (end < 0) return bytes.length < MAX_LINE_BYTES ? undefined : malformed('invalid PROXY header')
  const [word, family, source = '', destination = ''] = bytes.toString('latin1', 0, end).split(' ')
  const version = { TCP4: 4, TCP6: 6 }[family ?? '']
  const isRight =
    word === 'PROXY' && (family === 'UNKNOWN' || [source, destination].every((each) => isIP(each) === version))
  if (!isRight) return malformed('invalid PROXY header')
  return { value: { address: version === undefined ? undefined : source }, length: end + 2 }
}

const malformed = (text: string): ProxyError => new ProxyError('malformed', { text })
