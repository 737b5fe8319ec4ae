import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const MODULES = join(ROOT, 'node_modules')

/** The checkout may belong to another user than the one that runs the tests; the tests run code from it anyway. */
const GIT = ['-c', 'safe.directory=*', '-C', ROOT]

/**
 * For the `todo` of a test: why a commit cannot be checked out, e.g. in a clone without history. Returns false when it
 * can.
 */
export function withoutCommit(commit: string): string | false {
  const { error, status } = spawnSync('git', [...GIT, 'cat-file', '-e', `${commit}^{commit}`])
  if (error) return 'git is not installed'
  return status !== 0 && `commit ${commit.slice(0, 7)} is not in this checkout: clone the repository with its history`
}

export interface EarlierNeap {
  /** Its command line, for `startNeap`. */
  readonly program: string
  /** Imports one of its own modules. */
  load<T>(path: string): Promise<T>
  remove(): void
}

/**
 * The tree of an earlier commit in a temporary directory, with today's node_modules.
 * @param standIns sources of modules that it imports and that are no longer installed; they may do less than the
 * originals
 * Errors: git or tar failed.
 */
export function checkOut(commit: string, standIns: Readonly<Record<string, string>>): EarlierNeap {
  const dir = mkdtempSync(join(tmpdir(), 'neap-earlier-'))
  // Its computes run as separate users and read programs from here.
  chmodSync(dir, 0o755)
  const archive = execFileSync('git', [...GIT, 'archive', commit], { maxBuffer: 256 * 2 ** 20 })
  execFileSync('tar', ['-x', '-C', dir], { input: archive })
  for (const name of installed()) link(name)
  for (const [name, source] of Object.entries(standIns)) {
    const at = join(dir, 'node_modules', name)
    mkdirSync(at, { recursive: true })
    writeFileSync(join(at, 'package.json'), '{"type":"module","exports":"./index.js"}')
    writeFileSync(join(at, 'index.js'), source)
  }

  function link(name: string): void {
    const at = join(dir, 'node_modules', name)
    mkdirSync(dirname(at), { recursive: true })
    symlinkSync(join(MODULES, name), at)
  }

  return {
    program: join(dir, 'bin/neap'),
    load: async <T>(path: string) => (await import(join(dir, path))) as T,
    remove: () => rmSync(dir, { recursive: true, force: true }),
  }
}

/**
 * The names of all installed packages. Packages of a scope are listed one by one, so that stand-ins can be added to the
 * scope.
 */
function installed(): string[] {
  return readdirSync(MODULES)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(MODULES, name)).map((each) => `${name}/${each}`) : name,
    )
}
