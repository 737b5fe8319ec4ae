import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, lchown, mkdir, mkdtemp, readFile, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { UsageError } from '../errors.ts'
import { syncDirectory } from '../durable_file.ts'
import { syncFilesystem } from '../host/durable.ts'
import { withFileLock } from '../host/file_lock.ts'
import { BARE_ENVIRONMENT } from '../host/script.ts'
import type { Owner } from '../host/layout.ts'
import { scramVerifier } from '../postgres/scram_verifier.ts'
import { type StoreSecrets, TEMPLATE } from '../secrets/stores.ts'
import { initdbArgs, setupSql } from '../postgres/template_setup.ts'
import { notePassword } from './password_note.ts'

/** Another process may be creating the same template. */
const LOCK_SECONDS = 120

/**
 * Creates the data directory that first branches of a Postgres version are cloned from, once for all processes.
 * Every branch inherits its superuser, checksums, encoding and locale for ever.
 * @param secrets of neap_admin in the template; a branch has its own from its first start on
 */
export async function makeTemplate(
  directory: string,
  pgVersion: number,
  binDir: string,
  secrets: Pick<StoreSecrets, 'admin' | 'note'>,
): Promise<void> {
  const pgdata = join(directory, 'pgdata')
  if (existsSync(pgdata)) return
  await mkdir(directory, { recursive: true })
  await chmod(directory, 0o710)
  await withFileLock(join(directory, 'lock'), LOCK_SECONDS, async () => {
    if (existsSync(pgdata)) return
    await removeHalfMade(directory)
    await fillTemplate(directory, pgVersion, binDir, secrets).catch(async (error: unknown) => {
      await removeHalfMade(directory)
      throw error
    })
  })
}

async function fillTemplate(
  directory: string,
  pgVersion: number,
  binDir: string,
  secrets: Pick<StoreSecrets, 'admin' | 'note'>,
): Promise<void> {
  const builder = process.getuid?.() === 0 ? { uid: await namedUser(), gid: randomInt(...UNUSED_GROUPS) } : undefined
  // Other processes of that user are not in this group: they can neither reach the files nor trace the processes that
  // create them.
  if (builder) await chown(directory, 0, builder.gid)
  // A unique name: the initdb of a killed process may still be writing under another.
  const making = await mkdtemp(join(directory, MAKING))
  if (builder) await chown(making, builder.uid, builder.gid)
  await run(builder, join(binDir, 'initdb'), initdbArgs(making, pgVersion))
  await run(
    builder,
    join(binDir, 'postgres'),
    ['--single', '-j', '-D', making, 'postgres'],
    setupSql(pgVersion, await scramVerifier(secrets.admin(TEMPLATE)[0])),
  )
  // That user owns it only during its creation.
  if (builder) await giveToRoot(making)
  await notePassword(directory, secrets.note(TEMPLATE))
  await syncFilesystem(making)
  await rename(making, join(directory, 'pgdata'))
  await syncDirectory(directory)
}

const MAKING = 'making-'

/** Below the groups of computes. */
const UNUSED_GROUPS = [2 ** 29, 2 ** 30] as const

async function removeHalfMade(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => name.startsWith(MAKING))
  // A leftover initdb may still write: retry the removal until that initdb fails on missing files.
  const options = { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }
  for (const name of names) await rm(join(directory, name), options)
}

/** initdb looks up its user by name, so as root it needs a user with a name. */
async function namedUser(): Promise<number> {
  const users = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  for (const name of ['nobody', 'postgres', 'daemon']) {
    const user = users.find((fields) => fields[0] === name)
    if (user && Number(user[2]) > 0) return Number(user[2])
  }
  throw new UsageError('Neap runs as root and needs an unprivileged user for initdb: add one named "nobody".')
}

async function giveToRoot(path: string): Promise<void> {
  await lchown(path, 0, 0)
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await giveToRoot(join(path, entry.name))
    else await lchown(join(path, entry.name), 0, 0)
  }
}

async function run(user: Owner | undefined, program: string, args: string[], input = ''): Promise<void> {
  const child = spawn(program, args, { ...user, cwd: '/', env: BARE_ENVIRONMENT, stdio: ['pipe', 'pipe', 'pipe'] })
  // Without descriptors the child has no streams: its error follows.
  if (child.pid === undefined) await once(child, 'spawn')
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text))
  // An ended program reads no input: its exit code says why.
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  // Single-user mode goes on after a failed statement and exits 0.
  if (code !== 0 || /ERROR|FATAL|PANIC/.test(output)) throw new Error(`${program} failed: ${output.trim()}`)
}

/**
 * Computes run as users of their own and must be able to traverse to their directory.
 * @throws UsageError naming the closed directory
 */
export async function checkReachable(directory: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  for (let path = directory; path !== dirname(path); path = dirname(path)) {
    if (((await stat(path)).mode & 0o001) !== 0) continue
    throw new UsageError(
      `As root, Neap runs each compute as a user of its own, and ${path} is closed to them: ` +
        `choose another directory than ${directory}, or chmod o+x ${path}, or run Neap as an ordinary user.`,
    )
  }
}
