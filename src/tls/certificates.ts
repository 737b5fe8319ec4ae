import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readIfExists, readOrCreate, replaceFile } from '../durable_file.ts'
import { messageOf, UsageError } from '../errors.ts'

const RENEW_BEFORE_MS = 30 * 86_400_000
const ADDRESSES = ['127.0.0.1', '::1']

/** PEM files: what clients verify with, the server's chain, and its private key (mode 0600). */
export interface CertificateFiles {
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
}

/**
 * Neap's own certificate authority and the server certificate that it signs, in `dir`: made where they do not exist, the certificate
 * anew when it ends within 30 days or the names have changed. The authority stays, so clients keep the file they have.
 * Safe when processes race: keys are made once, and a certificate is only a signature under a key that stays.
 * To be called again every day by whoever runs for long. Throws UsageError for a key that is damaged.
 */
export async function ensureCertificates(
  dir: string,
  names: { region: string; domain: string },
): Promise<CertificateFiles> {
  await mkdir(dir, { recursive: true })
  const caFile = join(dir, 'ca.crt')
  const certFile = join(dir, 'server.crt')
  const keyFile = join(dir, 'server.key')
  const authority = await ensureAuthority(join(dir, 'ca.key'), caFile)
  const key = await ensureKey(keyFile)
  const dns = hostNames(names)
  const current = await readIfExists(certFile)
  if (!current || !serves(current, key, authority.certificate, dns)) {
    const { issueServer } = await import('./issue.ts')
    const leaf = await issueServer(key, { dns, ip: ADDRESSES }, authority)
    await replaceFile(certFile, 0o644, Buffer.from(leaf + authority.certificate))
  }
  return { caFile, certFile, keyFile }
}

function hostNames({ region, domain }: { region: string; domain: string }): string[] {
  return [...new Set([`*.${region}.${domain}`, `${region}.${domain}`, domain, 'localhost'])]
}

async function ensureAuthority(keyFile: string, caFile: string): Promise<{ key: string; certificate: string }> {
  const key = await ensureKey(keyFile)
  const issue = async () => Buffer.from(await (await import('./issue.ts')).issueAuthority(key))
  let certificate = await readOrCreate(caFile, 0o644, issue)
  if (!signsWith(certificate, key)) {
    certificate = await issue()
    await replaceFile(caFile, 0o644, certificate)
  }
  return { key, certificate: certificate.toString() }
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

function signsWith(certificate: Buffer, key: string): boolean {
  const parsed = parse(certificate)
  return parsed !== undefined && lasts(parsed) && parsed.checkPrivateKey(createPrivateKey(key))
}

function serves(certificate: Buffer, key: string, authority: string, dns: readonly string[]): boolean {
  const parsed = parse(certificate)
  if (!parsed || !signsWith(certificate, key)) return false
  const named = [...dns.map((name) => `DNS:${name}`), 'IP Address:127.0.0.1', 'IP Address:0:0:0:0:0:0:0:1'].join(', ')
  return parsed.subjectAltName === named && parsed.verify(new X509Certificate(authority).publicKey)
}

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
