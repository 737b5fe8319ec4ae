import { readFile } from 'node:fs/promises'
import type { Server } from 'node:tls'
import type { Logger } from 'pino'

const EVERY_MS = 3_600_000

/** Certificate chain and key, in PEM. */
export interface CertificateFiles {
  readonly certFile: string
  readonly keyFile: string
}

/** Answers the files as they should be now: renewed, if it was time. */
export type CurrentCertificate = () => Promise<CertificateFiles>

export async function readCertificate(current: CurrentCertificate) {
  const { certFile, keyFile } = await current()
  const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)])
  return { cert, key, minVersion: 'TLSv1.2' } as const
}

/** Takes the certificate as it is now, every hour: a proxy may run for longer than one lasts. The answer stops that. */
export function followCertificate(
  server: Server,
  current: CurrentCertificate,
  log: Logger,
  everyMs = EVERY_MS,
): () => void {
  const timer = setInterval(() => {
    readCertificate(current)
      .then((certificate) => server.setSecureContext(certificate))
      .catch((error: unknown) => log.error({ err: error }, 'could not renew the certificate; the one in use stays'))
  }, everyMs)
  return () => clearInterval(timer)
}
