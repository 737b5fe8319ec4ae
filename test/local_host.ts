/** A host in temporary directories, for tests. It runs real processes; `dispose` checks that they have ended. */
import { deepEqual } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, watch } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { ComputeAddress, ComputeSpec, StartedCompute } from '../src/compute/compute.ts'
import { type ComputeOptions, localComputes } from '../src/compute/process/local_computes.ts'
import type { Fence, Progress } from '../src/host/fence.ts'
import { uidRange } from '../src/host/uids.ts'
import { keysFor } from '../src/secrets/part_keys.ts'
import { FIRST_GENERATION } from '../src/secrets/ring.ts'
import { storeSecrets } from '../src/secrets/stores.ts'
import { localStorage } from '../src/storage/local_storage.ts'
import type { StoreRef } from '../src/storage/storage.ts'
import { notedServer } from '../src/compute/process/server_note.ts'
import { removeGroups } from './control_groups.ts'

const FIRST = {
  id: FIRST_GENERATION,
  createdAt: '',
  state: 'current',
  master: Buffer.alloc(32, 1),
  apiKey: undefined,
} as const
const KEYS = keysFor('all', { revision: 1, mockSalt: Buffer.alloc(32), lost: false, generations: [FIRST] })
export const SECRETS = storeSecrets(() => KEYS)
export const SMALL = { minCu: 0.25, maxCu: 0.25, cu: 0.25, pgSettings: {}, egress: false, serves: true }
export const PG_VERSION = 18
const LAST: Fence = { epoch: 1_000_000, seq: 1, generation: 1 }

export function freshHost(more: Partial<ComputeOptions> = {}) {
  const base = mkdtempSync(join(tmpdir(), 'neap-local-'))
  // Computes run as other users.
  chmodSync(base, 0o711)
  const options = { id: 'host-a', dataDir: join(base, 'data'), runtimeDir: join(base, 'run') }
  const all = { ...options, secrets: SECRETS, ...more, log: () => undefined }
  const [storage, computes] = [localStorage(all), localComputes(all)]
  const uids = uidRange({ ...options, uids: undefined })
  const branches: StoreRef[] = []
  let seq = 0

  return {
    storage,
    computes,
    options,
    base,
    branch(name: string): StoreRef {
      const number = branches.length + 1
      const branch = { id: `br-${name}`, number, uid: uids ? uids.first + number : null, pgVersion: PG_VERSION }
      branches.push(branch)
      return branch
    },
    /** The fence of a new operation. */
    next: (): Fence => ({ epoch: 0, seq: (seq += 1), generation: 1 }),
    home: (branch: StoreRef) => join(options.dataDir, 'branches', branch.id),
    /** Starts the compute of a branch. Returns it with its process. */
    async start(
      branch: StoreRef,
      fence: Fence,
      spec: Partial<ComputeSpec> = {},
    ): Promise<StartedCompute & { readonly pid: number }> {
      for (;;) {
        const compute = await computes.start(branch, { ...SMALL, ...spec }, fence)
        if (compute !== 'pending') return { ...compute, pid: notedServer(this.home(branch))?.pid ?? 0 }
      }
    },
    /** Removes every branch and checks that no process or directory remains. */
    async dispose(unmount: () => void = () => undefined) {
      for (const branch of branches) await settled(() => storage.remove(branch, LAST))
      deepEqual(await storage.list(), [])
      deepEqual(readdirSync(options.runtimeDir), [])
      deepEqual(processesIn(base), [])
      await removeGroups(options.dataDir)
      unmount()
      rmSync(base, { recursive: true })
    },
  }
}

/** Repeats a call while it returns `pending`. */
export async function settled(call: () => Promise<Progress>): Promise<void> {
  while ((await call()) === 'pending');
}

export async function query<Row extends pg.QueryResultRow>(
  address: ComputeAddress,
  sql: string,
  overrides: pg.ClientConfig = {},
): Promise<Row[]> {
  const client = new pg.Client({
    ...address,
    user: 'neap_admin',
    password: SECRETS.admin(address.store)[0],
    database: 'postgres',
    ...overrides,
  })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query<Row>(sql)).rows
  } finally {
    await client.end()
  }
}

/** Calls `look` at each change of an existing directory until it returns a value. */
export async function appears<T>(directory: string, look: () => T | undefined): Promise<T> {
  return await new Promise<T>((resolve) => {
    const watcher = watch(directory, () => check())
    const check = () => {
      const found = look()
      if (found === undefined) return
      watcher.close()
      resolve(found)
    }
    check()
  })
}

export async function fileAppears(directory: string, name: string): Promise<void> {
  await appears(directory, () => existsSync(join(directory, name)) || undefined)
}

/** The source of a module that defines `storage` and `computes` on the same directories, for another process. */
export function hostText(options: { dataDir: string; runtimeDir: string }): string {
  const url = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)
  return `import { SECRETS } from ${JSON.stringify(import.meta.url)}
    import { localStorage } from ${url('../src/storage/local_storage.ts')}
    import { localComputes } from ${url('../src/compute/process/local_computes.ts')}
    const options = { ...${JSON.stringify(options)}, secrets: SECRETS, log: () => undefined }
    const [storage, computes] = [localStorage(options), localComputes(options)]`
}

/** Runs a module's source in another process that has `storage` and `computes`; returns its output, parsed as JSON. */
export async function inAnotherProcess<T>(options: { dataDir: string; runtimeDir: string }, body: string): Promise<T> {
  const text = `${hostText(options)}\n${body}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
  await new Promise((resolve) => child.once('close', resolve))
  return JSON.parse(output || 'null') as T
}

/** The processes whose working directory lies below a path. */
export function processesIn(path: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        return Number.isInteger(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(path)
      } catch {
        return false
      }
    })
}

/** The process that copies into a branch, as soon as its pid file exists. */
export async function copierOf(home: string): Promise<number> {
  return await appears(home, () => {
    const [pid] = existsSync(join(home, 'copier')) ? readFileSync(join(home, 'copier'), 'utf8').split(' ') : []
    return Number(pid) > 1 ? Number(pid) : undefined
  })
}
