import { createHash } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import {
  appendFile,
  copyFile,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  controlValue,
  ALLOWED_EXTENSIONS,
  GUARDED_EXTENSIONS,
  isOffered,
  type OfferedExtension,
  SCRIPT_GUARD,
  UNSERVED_EXTENSIONS,
} from '../postgres/extensions.ts'
import { openToAll } from './bundled_binaries.ts'
import { syncFilesystem } from './durable.ts'

/** The files of a Postgres server, below one directory: it finds them by their places relative to its programs. */
export interface ServerTree {
  readonly root: string
  /** Paths below `root`. */
  readonly bin: string
  readonly lib: string
  readonly extensions: string
  /** The directories that hold all of it. */
  readonly parts: readonly string[]
}

/** The tree of a server by the directory of its programs: as Debian lays it out, or as `make install` does. */
export function serverTree(bin: string): ServerTree {
  const [, root, version] = /^(.*)\/lib\/postgresql\/(\d+)\/bin$/.exec(bin) ?? []
  if (root !== undefined && version !== undefined) {
    const [lib, share] = [`lib/postgresql/${version}`, `share/postgresql/${version}`]
    const parts = [lib, share]
    return { root, bin: `${lib}/bin`, lib: `${lib}/lib`, extensions: `${share}/extension`, parts }
  }
  const top = dirname(bin)
  const below = existsSync(join(top, 'share/postgresql')) ? '/postgresql' : ''
  const parts = ['bin', 'lib', 'share']
  return { root: top, bin: basename(bin), lib: `lib${below}`, extensions: `share${below}/extension`, parts }
}

/** Whether a server has a library to load. @param bin the directory of its programs */
export function hasLibrary(bin: string, name: string): boolean {
  const { root, lib } = serverTree(bin)
  return existsSync(join(root, lib, `${name}.so`))
}

/** Tells the state of a copy: changes when a server or extension is installed or updated, or guarded otherwise. */
export function idOf({ root, bin, lib, extensions }: ServerTree): string {
  const states = [join(bin, 'postgres'), lib, extensions].map((path) => {
    const { mtimeMs, size } = statSync(join(root, path))
    return `${path} ${mtimeMs} ${size}`
  })
  return createHash('sha256')
    .update([...states, SCRIPT_GUARD, ...ALLOWED_EXTENSIONS].join('\n'))
    .digest('hex')
    .slice(0, 12)
}

/** Not needed to run: static libraries, manuals, headers, and what JIT compilation would inline. */
const LEFT_OUT = /\.a$|\/(man|bitcode|include|pkgconfig|pgxs)$/

/** Copies a server, with its allowed extensions open to tenants. Repeatable. */
export async function copyServer(tree: ServerTree, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true })
  // Two calls in one process may copy at the same time.
  const making = await mkdtemp(`${target}.making-`)
  try {
    for (const part of tree.parts) {
      await mkdir(dirname(join(making, part)), { recursive: true, mode: 0o755 })
      const filter = (path: string): boolean => !LEFT_OUT.test(path)
      await cp(join(tree.root, part), join(making, part), { recursive: true, verbatimSymlinks: true, filter })
    }
    await openExtensions(join(making, tree.extensions))
    await openToAll(making)
    await syncFilesystem(making)
    await rename(making, target)
  } catch (error) {
    await rm(making, { recursive: true, force: true })
    // Another process was first.
    if (!existsSync(target)) throw error
  }
}

/** Lets tenants create the allowed extensions of a copy. @param directory of their control files */
export async function openExtensions(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isSymbolicLink()) await bringHere(path, directory)
    const [name = ''] = entry.name.split('--')
    // A link leads to another script of the copy.
    const isScript = entry.name.endsWith('.sql') && !(await lstat(path)).isSymbolicLink()
    if (isScript && GUARDED_EXTENSIONS.has(name)) await writeFile(path, SCRIPT_GUARD + (await readFile(path, 'utf8')))
  }
  for (const { name, control } of await controlsIn(directory)) {
    const file = join(directory, `${name}.control`)
    if (UNSERVED_EXTENSIONS.has(name)) await rm(file)
    else if (isOffered(name, control) && controlValue(control, 'trusted') !== 'true')
      await appendFile(file, '\ntrusted = true\n')
  }
}

/** Replaces a link that leads out of a directory by the file. */
async function bringHere(link: string, directory: string): Promise<void> {
  const file = await realpath(link)
  if (file.startsWith(`${await realpath(directory)}/`)) return
  await rm(link)
  await copyFile(file, link)
}

/** The extensions of a server that tenants may create, by name. */
export async function extensionsIn({ root, extensions }: ServerTree): Promise<OfferedExtension[]> {
  const directory = join(root, extensions)
  const files = await readdir(directory)
  // Debian's packages have control files under a second name, without scripts.
  const hasScript = (name: string) => files.some((file) => file.startsWith(`${name}--`) && file.endsWith('.sql'))
  const controls = await controlsIn(directory)
  return controls
    .filter(({ name, control }) => isOffered(name, control) && hasScript(name))
    .map(({ name, control }) => ({ name, default_version: controlValue(control, 'default_version') ?? '' }))
}

async function controlsIn(directory: string): Promise<{ name: string; control: string }[]> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.control')).toSorted()
  return Promise.all(
    files.map(async (file) => ({
      name: file.slice(0, -'.control'.length),
      control: await readFile(join(directory, file), 'utf8'),
    })),
  )
}
