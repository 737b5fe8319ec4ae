import { ProxyError } from './errors.ts'

/* The first packet of a client (Postgres manual, "Message Formats"): a length and a code, without a type byte. */

export const SSL_REQUEST = 80_877_103
export const GSSENC_REQUEST = 80_877_104
export const CANCEL_REQUEST = 80_877_102

export const PROTOCOL_3_0 = 3 << 16
/** The newest version that the proxy speaks, on both sides, as Postgres 18: cancel keys may be longer than in 3.0. */
export const PROTOCOL_3_2 = PROTOCOL_3_0 + 2

/** Whether a startup parameter is a protocol option. The proxy supports none. */
export const isProtocolOption = (name: string): boolean => name.startsWith('_pq_.')

/** Postgres' own limit (MAX_STARTUP_PACKET_LENGTH). */
export const MAX_STARTUP_BYTES = 10_000

const SHORTEST = 8

/** Names and values in Latin-1, which keeps every byte unchanged for any client encoding. */
export interface Startup {
  /** The protocol version: major in the upper sixteen bits. */
  readonly version: number
  readonly parameters: ReadonlyMap<string, string>
}

/** The length in a packet's first four bytes. undefined while there are fewer. */
export function packetLength(bytes: Buffer): number | 'invalid' | undefined {
  if (bytes.length < 4) return undefined
  const length = bytes.readInt32BE(0)
  return length < SHORTEST || length > MAX_STARTUP_BYTES ? 'invalid' : length
}

export function packetCode(packet: Buffer): number {
  return packet.readInt32BE(4)
}

/** Parses a StartupMessage. The last duplicate name counts, as in Postgres. Errors: malformed, unsupported_protocol. */
export function parseStartup(packet: Buffer): Startup {
  const version = packetCode(packet)
  if (version >> 16 !== 3) {
    throw new ProxyError('unsupported_protocol', {
      text: `unsupported frontend protocol ${version >>> 16}.${version & 0xffff}: server supports 3.0 to 3.2`,
    })
  }
  const parameters = new Map<string, string>()
  let at = SHORTEST
  const text = (): string => {
    const end = packet.indexOf(0, at)
    if (end < 0) throw new ProxyError('malformed', { text: 'invalid startup packet layout: unterminated text' })
    const value = packet.toString('latin1', at, end)
    at = end + 1
    return value
  }
  for (let name = text(); name !== ''; name = text()) parameters.set(name, text())
  if (at !== packet.length)
    throw new ProxyError('malformed', { text: 'invalid startup packet layout: expected terminator as last byte' })
  return { version, parameters }
}

export function encodeStartup({ version, parameters }: Startup): Buffer {
  const body = Buffer.from(
    `${[...parameters]
      .flat()
      .map((text) => `${text}\0`)
      .join('')}\0`,
    'latin1',
  )
  const head = Buffer.alloc(SHORTEST)
  head.writeInt32BE(SHORTEST + body.length, 0)
  head.writeInt32BE(version, 4)
  return Buffer.concat([head, body])
}
