import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readSetting } from '../../config.ts'
import { messageOf, UsageError } from '../../errors.ts'
import { openFilesLimit } from '../../observe/open_files.ts'
import { apiOrigin, isOpen, publicHost, publicPort } from '../../public_address.ts'
import { readState } from '../../supervisor/data_dir.ts'
import type { DoctorFlags } from '../doctor.ts'
import { askApi } from './api.ts'
import type { Finding } from './finding.ts'
import { meetProxy } from './proxy.ts'

/** What a client meets at a host, or at the Neap on this machine. Errors: UsageError. */
export async function examine(host: string | undefined, flags: DoctorFlags): Promise<readonly Finding[]> {
  const port = flags.port === undefined ? undefined : Number(flags.port)
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536))
    throw new UsageError(`--port is '${flags.port}': it takes a port from 1 to 65535.`)
  if (host === '')
    throw new UsageError('The host is empty: name one, or leave it out to examine the Neap on this machine.')
  if (host === undefined) return examineHere(flags, port)
  const ca = flags.ca === undefined ? undefined : authorities(flags.ca)
  const proxy = await meetProxy({
    host,
    port: port ?? 5432,
    trusted: ca,
  })
  return [...proxy, ...(flags.apiUrl === undefined ? [] : await askApi(flags.apiUrl, ca))]
}

/** Examines the Neap on this machine, at the host name and port that it gives to clients. */
async function examineHere(flags: DoctorFlags, port: number | undefined): Promise<readonly Finding[]> {
  const dataDir = readSetting('dataDir', flags)
  const { reach } = readState(dataDir)
  if (reach === undefined)
    throw new UsageError(
      `No Neap of this version was started on ${dataDir} yet: start it, or name a host: neap doctor <host>.`,
    )
  const given = flags.ca === undefined ? undefined : authorities(flags.ca)
  const ca = given ?? (reach.tlsCert === undefined ? authorities(join(dataDir, 'tls', 'ca.crt')) : undefined)
  const files = openFilesLimit()
  return [
    ...(await meetProxy({ host: publicHost(reach), port: port ?? publicPort(reach), trusted: ca })),
    ...(await askApi(flags.apiUrl ?? apiOrigin(reach), ca)),
    {
      what: 'reach',
      ...(isOpen(reach)
        ? { level: 'ok', found: `listens on ${reach.listen.join(', ')}` }
        : { level: 'note', found: 'listens on loopback only: other machines need neap up --listen' }),
    },
    {
      what: 'limits',
      level: files < 4_096 ? 'note' : 'ok',
      found: `${files} open files for each process: about ${Math.floor(files / 2)} sessions for each proxy (ulimit -n)`,
    },
  ]
}

/** Certificates in PEM. Errors: UsageError (the file has none). */
function authorities(file: string): string {
  try {
    const pem = readFileSync(file, 'utf8')
    void new X509Certificate(pem)
    return pem
  } catch (error) {
    throw new UsageError(`${file} holds no certificates in PEM: ${messageOf(error)}`)
  }
}
