import { Command, type Option } from 'commander'
import type { Overrides } from '../config.ts'
import { worst } from './doctor/finding.ts'
import { print } from './print.ts'
import { table } from './table.ts'

export interface DoctorFlags extends Overrides {
  readonly port?: string
  readonly ca?: string
  readonly apiUrl?: string
  readonly json?: boolean
}

/** `neap doctor`: checks how a client on this machine reaches a Neap. Changes no state and needs no key. */
export function doctorCommand(dataDir: Option): Command {
  return new Command('doctor')
    .description(
      'Say what a client on this machine would meet at a Neap: name, port, certificate, clock, version, limits.',
    )
    .argument('[host]', 'its host name or address, as in a connection string; without it the Neap on this machine')
    .addOption(dataDir)
    .option('--port <port>', 'port of the proxy; without it 5432, or that of the Neap on this machine')
    .option('--ca <file>', "certificates to trust, as the <data>/tls/ca.crt of that Neap; without it this machine's")
    .option('--api-url <url>', 'address of its API')
    .option('--json', 'print JSON')
    .action(async (host: string | undefined, flags: DoctorFlags) => {
      // Loaded here: HTTP and TLS take longer to load than most commands take to run.
      const { examine } = await import('./doctor/examine.ts')
      const findings = await examine(host, flags)
      const rows = findings.map(({ level, what, found }) => [level, what, found])
      print(flags.json ? JSON.stringify({ findings }) : table(['', 'WHAT', 'FOUND'], rows))
      if (worst(findings) === 'fails') process.exitCode = 1
    })
}
