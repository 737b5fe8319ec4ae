import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { copyFile, constants, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { StoreSecrets } from '../../secrets/stores.ts'
import type { Wall } from '../../walls.ts'
import type { Backend, BranchRef, ComputeSpec, Fence, RunningCompute } from '../compute.ts'
import { PG_VERSIONS } from '../../postgres/versions.ts'
import { installBinaries, isInstalled } from '../../host/binaries.ts'
import { fillDataDirectory } from '../../storage/clone.ts'
import type { CopyPlan } from '../../storage/copier.ts'
import { filterOf, mayReachOut, whyNoEgress } from './egress.ts'
import { type Log, homeOf, layoutOf, logDirOf, ownerOf, socketDirOf } from '../../host/layout.ts'
import { lastWordsIn, rotateLogs } from '../../host/logs.ts'
import { measureTree } from '../../storage/measure.ts'
import { prepareVersion } from '../../storage/prepare.ts'
import { endCopies, forgetOldRemovals, removeStored, storedBranches } from '../../storage/remove.ts'
import { inPlainWords } from '../../host/shortage.ts'
import {
  configureServer,
  type ServerPlan,
  type RunningServer,
  SERVER_PORT,
  findServer,
  hasEarlierServer,
  startServer,
  stopServer,
} from './server.ts'
import { HBA, configFor, processesFor } from '../../postgres/settings.ts'
import { busyBranches } from './running.ts'
import { ensureOwnPasswords, passwordNote, replaceUnknownPassword } from './store_password.ts'
import { isMarkedSubscribed } from '../../storage/subscription_mark.ts'
import { disableSubscriptions } from './subscriptions.ts'
import { type Walls, probeWalls } from './walls.ts'
import { watchComputes } from './watch.ts'

export interface LocalOptions {
  /** The id of this host. */
  readonly hostId: string
  readonly dataDir: string
  /** Short, since socket paths lie below it, and traversable for the computes' users. */
  readonly runtimeDir: string
  /** Passwords of Neap's own roles in branches. */
  readonly secrets: StoreSecrets
  readonly log: Log
  /** Walls to leave out though this machine supports them. */
  readonly lacks?: readonly Wall[]
  /** Networks that computes with egress reach besides public ones, as CIDR. */
  readonly egressAllow?: readonly string[]
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

  // Clients wait for a start: check the bundled package only once.
  const binaries = new Map<number, string>()
  async function binariesFor(pgVersion: number): Promise<string> {
    const bin = binaries.get(pgVersion) ?? (await installBinaries(layout.binaries, pgVersion))
    binaries.set(pgVersion, bin)
    return bin
  }

  let probed: Promise<Walls> | undefined
  const walls = (): Promise<Walls> =>
    (probed ??= probeWalls(layout.root, options.lacks).catch((error: unknown) => {
      // The failure may be temporary, such as a full disk: the next call probes again.
      probed = undefined
      throw error
    }))

  async function startCompute(branch: BranchRef, spec: ComputeSpec, fence: Fence): Promise<RunningCompute | 'pending'> {
    const bin = await binariesFor(branch.pgVersion)
    // A runtime directory in memory is lost at each boot.
    if (!existsSync(layout.runtimeDir)) await mkdir(layout.runtimeDir, { recursive: true, mode: 0o711 })
    const computeWalls = await walls()
    const plan: ServerPlan = {
      home: homeOf(layout, branch.id),
      bin,
      socketDir: socketDirOf(layout, branch),
      walls: computeWalls,
      root: layout.root,
      egress: spec.egress && mayReachOut(computeWalls) ? filterOf(options.egressAllow ?? []) : '',
      processes: processesFor(spec),
      hba: HBA,
      config: configFor(spec, branch.pgVersion),
      logFile: logFile(branch.id, 'postgres.log'),
      fence,
    }
    const { secrets } = options
    if ((await replaceUnknownPassword(plan, secrets)) === 'pending') return 'pending'
    const marked = isMarkedSubscribed(plan.home)
    if (marked && (await disableSubscriptions(plan, secrets.adminOf(passwordNote(plan.home)))) === 'pending')
      return 'pending'
    const server = await startServer(plan)
    if (server === 'pending') return 'pending'
    await ensureOwnPasswords(plan, branch.id, secrets)
    return computeOf(branch, server)
  }

  const calls: Omit<LocalBackend, 'watchComputes'> = {
    prepare: async (pgVersion) => {
      await prepareVersion(layout, pgVersion, options.secrets)
      await forgetOldRemovals(layout)
    },
    createBranch: (branch, fence) => fill(branch, { from: join(layout.templates, String(branch.pgVersion)) }, fence),
    cloneBranch: (branch, parent, fence) => {
      const reach = { socketDir: socketDirOf(layout, parent), passwords: options.secrets.admin(parent.id) }
      return fill(branch, { from: homeOf(layout, parent.id), parent: reach }, fence)
    },
    startCompute,
    configureCompute: (branch, spec, fence) =>
      configureServer(homeOf(layout, branch.id), configFor(spec, branch.pgVersion), fence),
    stopCompute: (branch, fence) => stopServer(homeOf(layout, branch.id), fence),
    findCompute: async (branch) => {
      const server = await findServer(homeOf(layout, branch.id))
      return server && computeOf(branch, server)
    },
    hasEarlierServer: (branch) => hasEarlierServer(homeOf(layout, branch.id)),
    removeBranch: (branch, fence) => removeStored(layout, branch, fence, options.log),
    lastWords: async (branch, since) => lastWordsIn(logFile(branch.id, 'postgres.log'), since),
    measureBranch: ({ id }) => measureTree(join(homeOf(layout, id), 'pgdata')),
    listBranches: () => storedBranches(layout),
    listRunning: () => busyBranches(layout),
    stopHelpers: () => endCopies(layout),
    storage: () => storageOf(layout.dataDir),
    pgVersions: async () => PG_VERSIONS.filter(isInstalled),
    walls: async () => [...(await walls()).has],
    // Without the wall `network` computes reach all addresses that this machine reaches.
    whyNoEgress: async () => (options.lacks?.includes('network') ? undefined : whyNoEgress(await walls(), layout.root)),
    rotateLogs: () => rotateLogs(layout.logs),
  }
  return { ...inPlainWords(calls, layout.dataDir), watchComputes: (ended) => watchComputes(layout, ended) }

  function computeOf(branch: BranchRef, { instance, startedAt }: RunningServer): RunningCompute {
    const address = { host: socketDirOf(layout, branch), port: SERVER_PORT, store: branch.id }
    return { id: instance, hostId: options.hostId, address, startedAt }
  }
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
