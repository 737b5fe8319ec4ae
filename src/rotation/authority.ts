import { join } from 'node:path'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { certifiedHosts } from '../public_address.ts'
import { changeAuthority } from '../tls/certificates.ts'
import { operatorFiles } from '../tls/operator.ts'

/** Makes the proxy show certificates of the last rotation's authority. Errors: UsageError (it created no authority). */
export async function rotateAuthority(config: Config): Promise<void> {
  if (operatorFiles(config)) throw new UsageError('The proxy shows a certificate of yours: replace its files.')
  await changeAuthority(join(config.dataDir, 'tls'), { ...config, hosts: certifiedHosts(config) })
}
