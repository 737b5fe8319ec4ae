import { Command, type Option } from 'commander'
import { reaches, type VerbSession, verb } from './verb.ts'

/** `neap ca`: the file by which clients verify the server. */
export function certificateAuthorityCommand(access: readonly Option[]): Command {
  const command = new Command('ca').description(
    'Print the certificates to verify this Neap with: neap ca > neap-ca.crt, for sslrootcert or NODE_EXTRA_CA_CERTS.',
  )
  return reaches(command, access).action(
    verb(async ({ call }: VerbSession<object>) => ({
      answer: await call('GET /certificate_authority', {}),
      text: ({ certificates }) => certificates.trimEnd(),
    })),
  )
}
