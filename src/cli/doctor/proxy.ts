import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import { checkServerIdentity, connect as secure, type DetailedPeerCertificate, type TLSSocket } from 'node:tls'
import { messageOf } from '../../errors.ts'
import type { Finding } from './finding.ts'

const PATIENCE_MS = 5_000
/** The packet that asks for TLS (Postgres manual, "Message Formats", SSLRequest). */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])
const DAY_MS = 86_400_000
const SOON_DAYS = 14

interface Place {
  readonly host: string
  readonly port: number
  /** Authorities in PEM; those of this machine when undefined. */
  readonly trusted: string | undefined
}

/** Goes as far as a client without a password gets: name, port, TLS, certificate. Each step needs the one before. */
export async function meetProxy(place: Place): Promise<readonly Finding[]> {
  const { host, port } = place
  const addresses = await resolve(host)
  if (!Array.isArray(addresses)) return [addresses]
  const named: Finding = { what: 'name', level: 'ok', found: `${host} is ${addresses.join(', ')}` }
  const reached = await Promise.all(addresses.map((address) => reach(address, port)))
  const open = reached.find(({ socket }) => socket !== undefined)
  const ports = reached.map(({ finding }) => finding)
  if (open?.socket === undefined) return [named, ...ports]
  for (const { socket } of reached) if (socket !== open.socket) socket?.destroy()
  // Clients try one address after the other.
  const passed = ports.map((each): Finding => (each.level === 'fails' ? { ...each, level: 'note' } : each))
  return [named, ...passed, ...(await shakeHands(open.socket, place))]
}

async function resolve(host: string): Promise<string[] | Finding> {
  if (isIP(host) !== 0) return [host]
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address)
  } catch (error) {
    const advice =
      'connect by the address and options=endpoint%3D<endpoint>, or give this machine the name (/etc/hosts, DNS)'
    return { what: 'name', level: 'fails', found: `${host} does not resolve (${messageOf(error)}): ${advice}` }
  }
}

async function reach(address: string, port: number): Promise<{ finding: Finding; socket?: Socket }> {
  const begun = performance.now()
  const socket = connect({ host: address, port, signal: AbortSignal.timeout(PATIENCE_MS) })
  try {
    await once(socket, 'connect')
  } catch (error) {
    const why =
      (error as NodeJS.ErrnoException).code === 'ABORT_ERR' ? 'no answer; is there a firewall?' : messageOf(error)
    return { finding: { what: 'port', level: 'fails', found: `${address} port ${port}: ${why}` } }
  }
  socket.on('error', () => {})
  const ms = (performance.now() - begun).toFixed(1)
  return { finding: { what: 'port', level: 'ok', found: `${address} port ${port} answers in ${ms} ms` }, socket }
}

async function shakeHands(plain: Socket, place: Place): Promise<readonly Finding[]> {
  const what = 'TLS'
  try {
    plain.write(SSL_REQUEST)
    const answer = await firstAnswer(plain)
    if (answer.toString('latin1') !== 'S')
      return [
        {
          what,
          level: 'fails',
          found:
            'what answers there is no Postgres with TLS (it said ' +
            `${JSON.stringify(answer.toString('latin1', 0, 40))})`,
        },
      ]
    const servername = isIP(place.host) === 0 ? { servername: place.host } : {}
    // The name is checked apart from the authority.
    const unnamed = { checkServerIdentity: () => undefined }
    const socket = secure({ socket: plain, rejectUnauthorized: false, ca: place.trusted, ...servername, ...unnamed })
    await Promise.race([once(socket, 'secureConnect', { signal: AbortSignal.timeout(PATIENCE_MS) }), closed(plain)])
    const findings = ofCertificate(socket, place)
    const shaken: Finding = { what, level: 'ok', found: `${socket.getProtocol()}, ${socket.getCipher().standardName}` }
    return [shaken, ...findings]
  } catch (error) {
    return [{ what, level: 'fails', found: `the handshake did not end well: ${messageOf(error)}` }]
  } finally {
    plain.destroy()
  }
}

async function firstAnswer(socket: Socket): Promise<Buffer> {
  const signal = AbortSignal.timeout(PATIENCE_MS)
  const [answer] = (await Promise.race([once(socket, 'data', { signal }), closed(socket)])) as [Buffer]
  return answer
}

/** Never resolves: rejects when the socket closes. */
async function closed(socket: Socket): Promise<never> {
  await once(socket, 'close')
  throw new Error('the server closed the connection')
}

function ofCertificate(socket: TLSSocket, { host, trusted }: Place): readonly Finding[] {
  const certificate = socket.getPeerCertificate(true)
  const unnamed = checkServerIdentity(host, certificate)
  const authority =
    trusted === undefined ? 'this machine trusts its authority' : 'signed by the authority that was given'
  const distrust =
    `not trusted (${String(socket.authorizationError)}): ` +
    'verify-full and HTTPS need --ca, for psql sslrootcert=<data>/tls/ca.crt'
  return [
    {
      what: 'certificate',
      ...(unnamed === undefined
        ? { level: 'ok', found: `made out to ${host}` }
        : {
            level: 'fails',
            found:
              `not made out to ${host}, but to ${certificate.subjectaltname ?? 'no name'}: ` +
              'set NEAP_PUBLIC_HOST there',
          }),
    },
    {
      what: 'authority',
      ...(socket.authorized
        ? { level: 'ok', found: authority }
        : { level: trusted === undefined ? 'note' : 'fails', found: distrust }),
    },
    ofDates(certificate),
  ]
}

/** A clock that is far off shows here first: the certificate is not valid yet, or no longer. */
function ofDates({ valid_from, valid_to }: DetailedPeerCertificate): Finding {
  const days = Math.floor((Date.parse(valid_to) - Date.now()) / DAY_MS)
  const what = 'validity'
  if (Date.parse(valid_from) > Date.now())
    return {
      what,
      level: 'fails',
      found: `begins ${valid_from} by this machine's clock: set the clock of the one that is wrong`,
    }
  if (days < 0) return { what, level: 'fails', found: `ended ${valid_to}: renew it, or set this machine's clock` }
  return { what, level: days < SOON_DAYS ? 'note' : 'ok', found: `for ${days} days more` }
}
