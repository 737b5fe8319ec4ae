import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { messageOf, UsageError } from '../errors.ts'

/** PEM files of a server: its certificate with the intermediate ones, and the private key that matches it. */
export interface PairFiles {
  readonly certFile: string
  readonly keyFile: string
}

export interface Pair {
  readonly cert: Buffer
  readonly key: Buffer
}

/** The operator's own files; undefined when there are none. Errors: UsageError (only one of the two is set). */
export function operatorFiles(settings: {
  readonly tlsCert: string | undefined
  readonly tlsKey: string | undefined
}): PairFiles | undefined {
  const { tlsCert: certFile, tlsKey: keyFile } = settings
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile }
  if (certFile === undefined && keyFile === undefined) return undefined
  const [given, absent] = certFile === undefined ? ['KEY', 'CERT'] : ['CERT', 'KEY']
  throw new UsageError(`NEAP_TLS_${given} is set and NEAP_TLS_${absent} is not: set both, or neither.`)
}

/** Reads both files and checks that they match. Errors: UsageError with the file and the reason. */
export async function readPair({ certFile, keyFile }: PairFiles): Promise<Pair> {
  const cert = await read(certFile)
  const key = await read(keyFile)
  const certificate = parse(certFile, () => new X509Certificate(cert), 'no certificate in PEM')
  const privateKey = parse(keyFile, () => createPrivateKey(key), 'no private key in PEM without a passphrase')
  if (!certificate.checkPrivateKey(privateKey))
    throw new UsageError(
      `The key in ${keyFile} does not fit the first certificate in ${certFile}: ` +
        "the server's own comes before those of authorities.",
    )
  return { cert, key }
}

/** The reasons why verifying clients reject a usable certificate, as text: `host` is a name they connect to. */
export function objectionsTo({ cert }: Pair, { certFile }: PairFiles, host: string): string[] {
  const certificate = new X509Certificate(cert)
  const { validToDate, subjectAltName } = certificate
  return [
    ...(certificate.checkHost(host) === undefined
      ? [`${certFile} is not made out to ${host.replace(/^[^.]+/, '*')}, but to ${subjectAltName ?? 'nobody'}`]
      : []),
    ...(validToDate.getTime() < Date.now() ? [`${certFile} has ended, ${validToDate.toISOString()}`] : []),
  ]
}

function read(file: string): Promise<Buffer> {
  return readFile(file).catch((error: unknown) => {
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`)
  })
}

function parse<T>(file: string, make: () => T, what: string): T {
  try {
    return make()
  } catch (error) {
    throw new UsageError(`${file} holds ${what} (${messageOf(error)})`)
  }
}
