import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readIfExists, readOrCreate, replaceFile } from '../durable_file.ts'
import { messageOf, UsageError } from '../errors.ts'
import { plainAddress } from '../network.ts'
import { BACKDATED_MS, type Subjects } from './issue.ts'

const RENEW_BEFORE_MS = 30 * 86_400_000
const ADDRESSES = ['127.0.0.1', '::1']

/** The names in the server's certificate: every endpoint of a region, and other hosts that clients connect to. */
export interface ServerNames {
  readonly region: string
  readonly domain: string
  /** Other host names and addresses. */
  readonly hosts?: Subjects
}

/** PEM files: the authority for clients to verify with, the server's chain, and its private key (mode 0600). */
export interface CertificateFiles {
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
}

/**
 * Neap's own certificate authority and the server certificate that it signs, in `dir`. Both are created when they do
 * not exist; the certificate is renewed when it ends within 30 days or lacks a name. It keeps its names until then:
 * parts with other settings share it. The authority stays, so clients keep the file they have.
 * Safe when processes race: keys are created once, and a certificate is only a signature under a key that stays.
 * A process that runs for long calls it again every day. Throws UsageError for a damaged key.
 */
export async function ensureCertificates(dir: string, names: ServerNames): Promise<CertificateFiles> {
  await mkdir(dir, { recursive: true })
  const caFile = join(dir, 'ca.crt')
  const certFile = join(dir, 'server.crt')
  const keyFile = join(dir, 'server.key')
  const authority = await ensureAuthority(join(dir, 'ca.key'), caFile)
  const key = await ensureKey(keyFile)
  const subjects = subjectsOf(names)
  const current = await readIfExists(certFile)
  const known = current && subjectsIn(current, key, authority.certificate)
  if (!known || !includes(known, subjects)) {
    const { issueServer } = await import('./issue.ts')
    const leaf = await issueServer(key, known ? union(known, subjects) : subjects, authority)
    await replaceFile(certFile, 0o644, Buffer.from(leaf + authority.certificate))
  }
  return { caFile, certFile, keyFile }
}

const nextFiles = (dir: string) => ({ nextKey: join(dir, 'next-ca.key'), nextCertificate: join(dir, 'next-ca.crt') })

/**
 * Creates the next authority, unless it exists, and adds its certificate to `ca.crt`: clients that verify have time to
 * take that file before `changeAuthority`.
 */
export async function prepareAuthority(dir: string): Promise<void> {
  const { nextKey, nextCertificate } = nextFiles(dir)
  const caFile = join(dir, 'ca.crt')
  const { certificate: current } = await ensureAuthority(join(dir, 'ca.key'), caFile)
  const { certificate: next } = await ensureAuthority(nextKey, nextCertificate)
  const both = Buffer.from(current + next)
  if (!(await readIfExists(caFile))?.equals(both)) await replaceFile(caFile, 0o644, both)
}

/**
 * Signs with the prepared authority from now on, and stops trusting the previous one. Killed at any point, it ends in
 * the same state when repeated. Errors: UsageError (none was prepared).
 */
export async function changeAuthority(dir: string, names: ServerNames): Promise<void> {
  const { nextKey, nextCertificate } = nextFiles(dir)
  const [key, certificate] = [await readIfExists(nextKey), await readIfExists(nextCertificate)]
  if (!key || !certificate)
    throw new UsageError('There is no next certificate authority: make one with npx neap secrets rotate')
  await replaceFile(join(dir, 'ca.key'), 0o600, key)
  await replaceFile(join(dir, 'ca.crt'), 0o644, certificate)
  await ensureCertificates(dir, names)
  for (const file of [nextKey, nextCertificate]) await rm(file, { force: true })
}

/** When a certificate of Neap's own was created and when it expires; undefined when there is none. */
export async function lifetimeOf(
  file: string,
): Promise<{ readonly madeAt: string; readonly endsAt: string } | undefined> {
  const parsed = parse((await readIfExists(file)) ?? Buffer.alloc(0))
  if (!parsed) return undefined
  const madeAt = new Date(parsed.validFromDate.getTime() + BACKDATED_MS)
  return { madeAt: madeAt.toISOString(), endsAt: parsed.validToDate.toISOString() }
}

/** The files of the authority, of the next authority, and of the server's certificate. */
export const certificateFiles = (dir: string) => ({
  authority: join(dir, 'ca.crt'),
  nextAuthority: nextFiles(dir).nextCertificate,
  server: join(dir, 'server.crt'),
})

function subjectsOf({ region, domain, hosts }: ServerNames): Subjects {
  const dns = [`*.${region}.${domain}`, `${region}.${domain}`, domain, 'localhost', ...(hosts?.dns ?? [])]
  return { dns: [...new Set(dns)], ip: [...new Set([...ADDRESSES, ...(hosts?.ip ?? [])].map(shortAddress))] }
}

async function ensureAuthority(keyFile: string, caFile: string): Promise<{ key: string; certificate: string }> {
  const key = await ensureKey(keyFile)
  const issue = async () => Buffer.from(await (await import('./issue.ts')).issueAuthority(key))
  let certificate = await readOrCreate(caFile, 0o644, issue)
  if (!signsWith(certificate, key)) {
    certificate = await issue()
    await replaceFile(caFile, 0o644, certificate)
  }
  return { key, certificate: firstOf(certificate.toString()) }
}

async function ensureKey(file: string): Promise<string> {
  const make = async () => Buffer.from(await (await import('./issue.ts')).newKey())
  const key = (await readOrCreate(file, 0o600, make)).toString()
  try {
    createPrivateKey(key)
  } catch (error) {
    throw new UsageError(`${file} is no private key (${messageOf(error)}): remove it and Neap makes another`)
  }
  return key
}

/** The authority in use; the next one may follow it in the file. */
function firstOf(certificates: string): string {
  return `${certificates.split(END)[0]}${END}\n`
}

const END = '-----END CERTIFICATE-----'

function signsWith(certificate: Buffer, key: string): boolean {
  const parsed = parse(certificate)
  return parsed !== undefined && lasts(parsed) && parsed.checkPrivateKey(createPrivateKey(key))
}

/** The names in a certificate. Returns undefined when it is not usable any more. */
function subjectsIn(certificate: Buffer, key: string, authority: string): Subjects | undefined {
  const parsed = parse(certificate)
  if (!parsed || !signsWith(certificate, key) || !parsed.verify(new X509Certificate(authority).publicKey))
    return undefined
  const names = parsed.subjectAltName?.split(', ') ?? []
  const ofKind = (kind: string) => names.filter((name) => name.startsWith(kind)).map((name) => name.slice(kind.length))
  return { dns: ofKind('DNS:'), ip: ofKind('IP Address:').map(shortAddress) }
}

/** Certificates are printed with all zeros of IPv6. */
const shortAddress = (address: string): string => plainAddress(address) ?? address

const includes = (known: Subjects, wanted: Subjects): boolean =>
  wanted.dns.every((name) => known.dns.includes(name)) && wanted.ip.every((address) => known.ip.includes(address))

const union = (known: Subjects, wanted: Subjects): Subjects => ({
  dns: [...new Set([...known.dns, ...wanted.dns])],
  ip: [...new Set([...known.ip, ...wanted.ip])],
})

function lasts({ validToDate }: X509Certificate): boolean {
  return validToDate.getTime() - Date.now() > RENEW_BEFORE_MS
}

function parse(pem: Buffer): X509Certificate | undefined {
  try {
    return new X509Certificate(pem)
  } catch {
    return undefined
  }
}
