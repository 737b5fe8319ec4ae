import { join } from 'node:path'
import type { Config } from '../config.ts'
import { certifiedHosts } from '../public_address.ts'
import { ensureCertificates } from '../tls/certificates.ts'
import type { CurrentCertificate } from '../tls/follow.ts'
import { operatorFiles } from '../tls/operator.ts'

/**
 * The certificate of this Neap: the operator's, else one of its own authority. Errors: UsageError (only one of the
 * operator's two files is set).
 */
export function certificateOf(config: Config): CurrentCertificate {
  const operators = operatorFiles(config)
  const names = { ...config, hosts: certifiedHosts(config) }
  return async () => operators ?? ensureCertificates(join(config.dataDir, 'tls'), names)
}
