// The library finds its parts by decorators, which need this loaded first.
import 'reflect-metadata'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { randomBytes } from 'node:crypto'

/** How much certificates are backdated, for clients with clocks that are behind. */
export const BACKDATED_MS = 3_600_000

const DAY_MS = 86_400_000
const CA_DAYS = 20 * 365
const SERVER_DAYS = 365
const KEY = { name: 'ECDSA', namedCurve: 'P-256' }
const SIGNATURE = { name: 'ECDSA', hash: 'SHA-256' }

/** The names in a certificate: host names, of which the first label may be `*`, and addresses. */
export interface Subjects {
  readonly dns: readonly string[]
  readonly ip: readonly string[]
}

/** A new P-256 private key, as PKCS #8 in PEM. */
export async function newKey(): Promise<string> {
  const { privateKey } = await crypto.subtle.generateKey(KEY, true, ['sign', 'verify'])
  return `${PemConverter.encode(await crypto.subtle.exportKey('pkcs8', privateKey), 'PRIVATE KEY')}\n`
}

/** The self-signed certificate, in PEM, of the authority with this key: signs servers, not further authorities. */
export async function issueAuthority(key: string): Promise<string> {
  const keys = await importKey(key)
  const certificate = await X509CertificateGenerator.createSelfSigned({
    ...lifetime(CA_DAYS),
    name: 'CN=Neap CA',
    keys,
    signingAlgorithm: SIGNATURE,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return `${certificate.toString('pem')}\n`
}

/** A server's certificate, in PEM, for the holder of `key`, signed by the authority. */
export async function issueServer(
  key: string,
  subjects: Subjects,
  authority: { certificate: string; key: string },
): Promise<string> {
  const keys = await importKey(key)
  const issuer = new X509Certificate(authority.certificate)
  const certificate = await X509CertificateGenerator.create({
    ...lifetime(SERVER_DAYS),
    subject: 'CN=Neap',
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey: (await importKey(authority.key)).privateKey,
    signingAlgorithm: SIGNATURE,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension([
        ...subjects.dns.map((value) => ({ type: 'dns' as const, value })),
        ...subjects.ip.map((value) => ({ type: 'ip' as const, value })),
      ]),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
      await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  })
  return `${certificate.toString('pem')}\n`
}

/** The serial number is positive and has at most 20 bytes (RFC 5280). */
function lifetime(days: number) {
  const now = Date.now()
  const serial = randomBytes(16)
  serial.writeUInt8(0x40 | (serial.readUInt8(0) & 0x3f), 0)
  return {
    notBefore: new Date(now - BACKDATED_MS),
    notAfter: new Date(now + days * DAY_MS),
    serialNumber: serial.toString('hex'),
  }
}

// Its type is inferred: with the types of a browser, as in tests of the console, keys have other ones.
async function importKey(pem: string) {
  const privateKey = await crypto.subtle.importKey('pkcs8', PemConverter.decodeFirst(pem), KEY, true, ['sign'])
  const { d: _, key_ops: __, ...point } = await crypto.subtle.exportKey('jwk', privateKey)
  const publicKey = await crypto.subtle.importKey('jwk', point, KEY, true, ['verify'])
  return { privateKey, publicKey }
}
