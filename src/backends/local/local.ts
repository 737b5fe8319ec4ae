import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { copyFile, constants, mkdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Backend, BranchRef, ComputeSpec, Fence, RunningCompute } from '../backend.ts'
import { installBinaries } from './binaries.ts'
import { fillDataDirectory } from './clone.ts'
import type { CopyPlan } from './copier.ts'
import { type Layout, type Log, homeOf, layoutOf, logDirOf, ownerOf, socketDirOf } from './layout.ts'
import { lastWordsIn, rotateLogs } from './logs.ts'
import { prepareVersion, publishFile } from './prepare.ts'
import { endCopies, forgetOldRemovals, removeStored, storedBranches } from './remove.ts'
import { inPlainWords } from './shortage.ts'
import {
  configureServer,
  type ServerPlan,
  type RunningServer,
  ServerStartError,
  findServer,
  startServer,
  stopServer,
} from './server.ts'
import { HBA, configFor } from './settings.ts'
import { busyBranches } from './running.ts'
import { isMarkedSubscribed } from './subscription_mark.ts'
import { disableSubscriptions } from './subscriptions.ts'
import { watchProcesses } from './watch.ts'

export interface LocalOptions {
  readonly dataDir: string
  /** Short (sockets lie below it), and open to pass through for the computes' users. */
  readonly runtimeDir: string
  /** Of the superuser `neap_admin` in every branch: 256 random bits in text. */
  readonly adminPassword: string
  readonly log: Log
  /** Picks a loopback port for a compute; for tests. */
  readonly pickPort?: () => Promise<number>
}

export interface LocalBackend extends Backend {
  /** Whether clones share their blocks on the filesystem of the data directory. */
  storage(): Promise<'reflink' | 'copy'>
  /** Rotates the logs that have grown large; for a timer. */
  rotateLogs(): Promise<void>
}

/** Branches as directories and computes as processes of this machine. */
export function localBackend(options: LocalOptions): LocalBackend {
  const layout = layoutOf(options)
  const logFile = (branchId: string, name: string) => join(logDirOf(layout, branchId), name)

  const fill = (branch: BranchRef, source: Pick<CopyPlan, 'from' | 'parent'>, fence: Fence) =>
    fillDataDirectory(
      { home: homeOf(layout, branch.id), owner: ownerOf(layout, branch), ...source },
      {
        removed: join(layout.removed, branch.id),
        logFile: logFile(branch.id, 'copy.log'),
        cacheDir: layout.cache,
        fence,
      },
    )

  // A start is what people wait for: it looks at what npm brought only once.
  const binaries = new Map<number, string>()
  async function binariesFor(pgVersion: number): Promise<string> {
    const bin = binaries.get(pgVersion) ?? (await installBinaries(layout.binaries, pgVersion))
    binaries.set(pgVersion, bin)
    return bin
  }

  async function startCompute(branch: BranchRef, spec: ComputeSpec, fence: Fence): Promise<RunningCompute | 'pending'> {
    const bin = await binariesFor(branch.pgVersion)
    // Gone after each boot where it is in memory.
    if (!existsSync(layout.runtimeDir)) await mkdir(layout.runtimeDir, { recursive: true, mode: 0o711 })
    for (let attempt = 1; ; attempt++) {
      try {
        const plan: ServerPlan = {
          home: homeOf(layout, branch.id),
          postgres: join(bin, 'postgres'),
          socketDir: socketDirOf(layout, branch),
          port: await (options.pickPort ?? freePort)(),
          listen: '127.0.0.1',
          hbaFile: layout.hbaFile,
          config: configFor(spec, branch.pgVersion),
          logFile: logFile(branch.id, 'postgres.log'),
          fence,
        }
        if (isMarkedSubscribed(plan.home) && (await disableSubscriptions(plan, options.adminPassword)) === 'pending')
          return 'pending'
        const server = await startServer(plan)
        return server === 'pending' ? 'pending' : computeOf(layout, branch, server)
      } catch (error) {
        // Something else took the port between the look and the start.
        const portTaken = error instanceof ServerStartError && error.message.includes('could not bind')
        if (!portTaken || attempt === 3) throw error
        options.log('debug', 'a port was taken, trying another', { branch: branch.id, attempt })
      }
    }
  }

  const calls: Omit<LocalBackend, 'watchComputes'> = {
    prepare: async (pgVersion) => {
      await publishFile(layout.hbaFile, HBA)
      await prepareVersion(layout, pgVersion, options.adminPassword)
      await forgetOldRemovals(layout)
    },
    createBranch: (branch, fence) => fill(branch, { from: join(layout.templates, String(branch.pgVersion)) }, fence),
    cloneBranch: (branch, parent, fence) => {
      const reach = { socketDir: socketDirOf(layout, parent), adminPassword: options.adminPassword }
      return fill(branch, { from: homeOf(layout, parent.id), parent: reach }, fence)
    },
    startCompute,
    configureCompute: (branch, spec, fence) =>
      configureServer(homeOf(layout, branch.id), configFor(spec, branch.pgVersion), fence),
    stopCompute: (branch, fence) => stopServer(homeOf(layout, branch.id), fence),
    findCompute: async (branch) => {
      const server = await findServer(homeOf(layout, branch.id))
      return server && computeOf(layout, branch, server)
    },
    removeBranch: (branch, fence) => removeStored(layout, branch, fence, options.log),
    lastWords: async (branch, since) => lastWordsIn(logFile(branch.id, 'postgres.log'), since),
    listBranches: () => storedBranches(layout),
    listRunning: () => busyBranches(layout),
    stopHelpers: () => endCopies(layout),
    storage: () => storageOf(layout.dataDir),
    rotateLogs: () => rotateLogs(layout.logs),
  }
  return { ...inPlainWords(calls, layout.dataDir), watchComputes: watchProcesses }
}

function computeOf(layout: Layout, branch: BranchRef, server: RunningServer): RunningCompute {
  return {
    branchId: branch.id,
    address: { host: socketDirOf(layout, branch), port: server.port },
    pid: server.pid,
    startedAt: server.startedAt,
  }
}

async function freePort(): Promise<number> {
  const probe = createServer()
  return await new Promise((resolve, reject) => {
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => (typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port'))))
    })
  })
}

async function storageOf(directory: string): Promise<'reflink' | 'copy'> {
  const probe = join(directory, `.probe-${randomUUID()}`)
  await writeFile(probe, Buffer.alloc(8192, 1))
  try {
    await copyFile(probe, `${probe}-clone`, constants.COPYFILE_FICLONE_FORCE)
    return 'reflink'
  } catch {
    return 'copy'
  } finally {
    await rm(probe, { force: true })
    await rm(`${probe}-clone`, { force: true })
  }
}
