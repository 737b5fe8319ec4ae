import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readFile, readdir, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { syncFilesystem } from './durable.ts'

/**
 * Copies a package's programs and libraries to a directory that they can run from. Repeatable.
 * @param complete makes its changes to the copy before the copy is there
 */
export async function copyPackage(
  native: string,
  target: string,
  complete?: (making: string) => Promise<void>,
): Promise<void> {
  await mkdir(dirname(target), { recursive: true })
  // Two calls in one process may copy at the same time.
  const making = await mkdtemp(`${target}.making-`)
  try {
    await fill(native, making)
    await complete?.(making)
    await syncFilesystem(making)
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
}

/** Opens the programs to the computes' own users, independent of the umask when npm unpacked them. */
export async function openToAll(directory: string): Promise<void> {
  await chmod(directory, 0o755)
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await openToAll(path)
    else if (entry.isFile())
      await chmod(path, basename(directory) === 'bin' || entry.name.includes('.so') ? 0o755 : 0o644)
  }
}
