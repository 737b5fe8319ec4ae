import { chmod, mkdir, readdir, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { InstallationFiles } from '../backup/installation_files.ts'
import type { Config } from '../config.ts'
import { readIfExists, replaceFile } from '../durable_file.ts'
import { readState } from './data_dir.ts'

const KEYS = 'secret.key'

/** The files without which a restored installation would be another: keys, host, ports and certificates. */
export async function readInstallationFiles({ dataDir, secretFile }: Config): Promise<InstallationFiles> {
  const files = new Map<string, Buffer>([[KEYS, await readFile(secretFile)]])
  const host = await readIfExists(join(dataDir, 'host'))
  if (host) files.set('host', host)
  const { processes: _processes, ...state } = readState(dataDir)
  files.set('state.json', Buffer.from(`${JSON.stringify(state, null, 2)}\n`))
  for (const name of await readdir(join(dataDir, 'tls')).catch(() => []))
    files.set(`tls/${name}`, await readFile(join(dataDir, 'tls', name)))
  return files
}

/** Writes them into a new data directory. */
export async function writeInstallationFiles({ dataDir, secretFile }: Config, files: InstallationFiles): Promise<void> {
  for (const [path, content] of files) {
    const file = path === KEYS ? secretFile : join(dataDir, dirname(path), basename(path))
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await replaceFile(file, 0o600, content)
  }
  const host = join(dataDir, 'host')
  if (files.has('host')) await chmod(host, 0o644)
}
