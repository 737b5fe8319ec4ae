import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Type } from 'typebox'
import { AppError } from '../../errors.ts'
import { route } from '../route.ts'

export const getCertificateAuthority = route('GET /certificate_authority', {
  summary: 'The certificates that clients verify this Neap with (sslrootcert, NODE_EXTRA_CA_CERTS)',
  tag: 'Neap',
  anyProject: true,
  returns: Type.Object({
    certificates: Type.String({ description: 'PEM; two of them while the authority is being replaced' }),
  }),
  errors: ['NOT_FOUND'],
}).handle(async (_request, { config }) => {
  if (config.tlsCert !== undefined)
    throw new AppError('NOT_FOUND', 'This Neap has a certificate of its operator: verify it with those of the system.')
  const certificates = await readFile(join(config.dataDir, 'tls', 'ca.crt'), 'utf8').catch((cause: unknown) => {
    throw new AppError('NOT_FOUND', 'This Neap has no certificate authority yet. Try again shortly.', { cause })
  })
  return { certificates }
})
