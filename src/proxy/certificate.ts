import { readFile } from 'node:fs/promises'
import type { Server } from 'node:tls'
import type { Logger } from 'pino'

const EVERY_MS = 3_600_000

/** Certificate chain and key, in PEM. */
export interface CertificateFiles {
  readonly certFile: string
  readonly keyFile: string
}

export async function readCertificate({ certFile, keyFile }: CertificateFiles) {
  const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)])
  return { cert, key, minVersion: 'TLSv1.2' } as const
}

/** Takes the files as they are now, every hour: whoever renews them need not tell. The answer stops that. */
export function followCertificate(server: Server, files: CertificateFiles, log: Logger): () => void {
  const timer = setInterval(() => {
    readCertificate(files)
      .then((certificate) => server.setSecureContext(certificate))
      .catch((error: unknown) =>
        log.error({ err: error }, 'could not read the certificate again; the one in use stays'),
      )
  }, EVERY_MS)
  return () => clearInterval(timer)
}
