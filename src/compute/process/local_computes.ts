import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { installBinaries } from '../../host/binaries.ts'
import { cloneKindOf } from '../../host/clone_kind.ts'
import { ConfigurationError } from '../../host/failures.ts'
import type { Fence, Progress } from '../../host/fence.ts'
import { homeOf, type Layout, layoutOf, logDirOf, ownerOf, SERVER_PORT, socketDirOf } from '../../host/layout.ts'
import { lastWordsIn } from '../../host/logs.ts'
import type { HostOptions } from '../../host/options.ts'
import { probeOnce } from '../../host/probe_once.ts'
import { hasLibrary } from '../../host/server_copy.ts'
import { waitStopped } from '../../host/server_lock.ts'
import { explainShortages } from '../../host/shortage.ts'
import { PREWARM, STATEMENT_STATISTICS } from '../../postgres/extensions.ts'
import { configFor, HBA, isPrewarmed, processesFor } from '../../postgres/settings.ts'
import { MIB_PER_CU } from '../../size.ts'
import { passwordNote } from '../../storage/password_note.ts'
import type { StoreRef } from '../../storage/storage.ts'
import { isMarkedSubscribed } from '../../storage/subscription_mark.ts'
import type { Wall } from '../../walls.ts'
import type { Computes, CurrentSize, ComputeSpec, RunningCompute, StartedCompute } from '../compute.ts'
import { type Cgroups, cgroups } from './cgroup.ts'
import { filterOf, mayReachOut, whyNoEgress } from './egress.ts'
import { dropOldBlockList } from './prewarm.ts'
import { recoverStore } from './recover_store.ts'
import { readRecovery } from './recovery.ts'
import { busyStores } from './running.ts'
import {
  awaitSettled,
  configureServer,
  findServer,
  hasEarlierServer,
  type RunningServer,
  type ServerPlan,
  startServer,
} from './server.ts'
import { type StopSeconds, stopServer } from './stop_server.ts'
import { notedServer } from './server_note.ts'
import { ensureOwnPasswords, replaceUnknownPassword } from './store_password.ts'
import { disableSubscriptions } from './subscriptions.ts'
import { endDrillServer, runDrill } from './drill_server.ts'
import { probeWalls } from './walls.ts'
import { watchComputes } from './watch.ts'

export interface ComputeOptions extends HostOptions {
  /** Walls to leave out though this machine supports them. */
  readonly lacks?: readonly Wall[]
  /** Networks that computes with egress reach besides public ones, as CIDR. */
  readonly egressAllow?: readonly string[]
  /** Other times for the steps of a stop. */
  readonly stopSeconds?: StopSeconds
}

/** Computes as processes of this machine. */
export function localComputes(options: ComputeOptions): Computes {
  const layout = layoutOf(options)
  const logFile = (storeId: string) => join(logDirOf(layout, storeId), 'postgres.log')
  const groups = cgroups(layout.dataDir)
  const walls = probeOnce(() => probeWalls(layout.root, options.lacks))
  // On the filesystem of the stores, where a probe that is killed leaves its file among notes that expire.
  const cloneKind = probeOnce(() => cloneKindOf(layout.removed))
  const binOf = ({ pgVersion }: StoreRef) => installBinaries(layout.binaries, pgVersion, options.programs)
  const configOf = async (store: StoreRef, spec: ComputeSpec) =>
    configFor(spec, store.pgVersion, {
      clonesFiles: (await cloneKind()) === 'reflink',
      ...abilitiesOf(await binOf(store), spec),
    })

  async function planOf(store: StoreRef, spec: ComputeSpec, fence: Fence): Promise<ServerPlan> {
    const bin = await binOf(store)
    // A runtime directory in memory is lost at each boot.
    if (!existsSync(layout.runtimeDir)) await mkdir(layout.runtimeDir, { recursive: true, mode: 0o711 })
    const computeWalls = await walls()
    return {
      home: homeOf(layout, store.id),
      owner: ownerOf(store),
      bin,
      socketDir: socketDirOf(layout, store),
      walls: computeWalls,
      root: layout.root,
      egress: spec.egress && mayReachOut(computeWalls) ? filterOf(options.egressAllow ?? []) : '',
      processes: processesFor(spec),
      groups: (instance) => groups.groupsFor(instance, resourceLimits(spec), true),
      hba: HBA,
      config: await configOf(store, spec),
      logFile: logFile(store.id),
      fence,
    }
  }

  async function start(store: StoreRef, spec: ComputeSpec, fence: Fence): Promise<StartedCompute | 'pending'> {
    const plan = await planOf(store, spec, fence)
    const { secrets } = options
    if ((await prepareStore(plan, store.id, secrets)) === 'pending') return 'pending'
    if (spec.serves) dropOldBlockList(plan.home)
    const server = await startServer(plan)
    if (server === 'pending') return 'pending'
    await ensureOwnPasswords(plan, store.id, secrets, { keepsWal: true })
    return { ...computeOf(store, server), isNew: server.isNew }
  }

  function computeOf(store: StoreRef, { instance, startedAt }: RunningServer): RunningCompute {
    const address = { host: socketDirOf(layout, store), port: SERVER_PORT, store: store.id }
    return { id: instance, hostId: options.id, address, startedAt }
  }

  const calls: Omit<Computes, 'watch'> = {
    start,
    readProgress: async ({ id }) => startProgress(homeOf(layout, id)),
    configure: async (store, spec, fence) =>
      configureServer(homeOf(layout, store.id), await configOf(store, spec), fence),
    ...callsOf(groups),
    ...looksOf(layout),
    async stop(store, fence) {
      const [home, socketDir] = [homeOf(layout, store.id), socketDirOf(layout, store)]
      const server = notedServer(home)
      const progress = await stopServer(home, { fence, seconds: options.stopSeconds, socketDir })
      if (progress === 'done' && server) groups.remove(server.instance)
      return progress
    },
    runDrill: async (store, home, ...more) =>
      runDrill(
        { layout, store, home, bin: await binOf(store), walls: await walls(), groups },
        options.secrets,
        ...more,
      ),
    find: async (store) => {
      const server = await findServer(homeOf(layout, store.id))
      return server && computeOf(store, server)
    },
    lastWords: async (store, { id, startedAt }) =>
      restartSince(startedAt) ??
      [groups.outOfMemory(id), lastWordsIn(logFile(store.id), startedAt)].filter(Boolean).join('; '),
    walls: async () => [...(await walls()).has],
    // Without the wall `network` computes reach all addresses that this machine reaches.
    whyNoEgress: async () => (options.lacks?.includes('network') ? undefined : whyNoEgress(await walls(), layout.root)),
  }
  return { ...explainShortages(calls, layout.branches), watch: (ended) => watchComputes(layout, logFile, ended) }
}

/** The abilities of a compute by its use, and by the libraries in `bin`, the directory of its programs. */
const abilitiesOf = (bin: string, spec: ComputeSpec) => ({
  countsStatements: hasLibrary(bin, STATEMENT_STATISTICS),
  prewarms: spec.serves && isPrewarmed(spec) && hasLibrary(bin, PREWARM),
  recyclesWal: spec.serves,
})

/**
 * Prepares a store for its first start, before any client can reach it. Errors: ConfigurationError (it has no data),
 * and those of a recovery.
 */
async function prepareStore(plan: ServerPlan, id: string, secrets: HostOptions['secrets']): Promise<Progress> {
  if (!existsSync(join(plan.home, 'pgdata')))
    throw new ConfigurationError(`The data of this branch (store ${id}) is not in the data directory of this host.`)
  if ((await recoverStore(plan, id, secrets)) === 'pending') return 'pending'
  if ((await replaceUnknownPassword(plan, id, secrets, { keepsWal: true })) === 'pending') return 'pending'
  return isMarkedSubscribed(plan.home) ? disableSubscriptions(plan, secrets.adminOf(passwordNote(plan.home))) : 'done'
}

function startProgress(home: string): string {
  const server = notedServer(home)
  return (server && readRecovery(home, server.pid)) ?? 'Postgres is starting'
}

/** The calls that look at servers only. */
const looksOf = (layout: Layout): Pick<Computes, 'settled' | 'hasEarlierServer' | 'isTaken' | 'listRunning'> => ({
  settled: ({ id }) => awaitSettled(homeOf(layout, id)),
  hasEarlierServer: async ({ id }) => hasEarlierServer(homeOf(layout, id)),
  isTaken: async ({ id }) => (await waitStopped(homeOf(layout, id), 0)) === 'pending',
  listRunning: () => busyStores(layout),
})

/** The calls that concern the size of a compute, and the end of a drill. */
const callsOf = (groups: Cgroups) => ({
  resize: (id: string, size: CurrentSize) => groups.limit(id, resourceLimits(size)),
  weigh: async (id: string, { cu, comesFirst }: { cu: number; comesFirst: boolean }) =>
    groups.weigh(id, cu, comesFirst),
  readCpuTime: async (id: string) => groups.cpuTime(id),
  readTotalCpuTime: async () => groups.totalCpuTime(),
  readUse: async (id: string) => groups.use(id),
  readMemory: async () => groups.memory(),
  readDemand: async (id: string) => groups.demand(id),
  whyNoLimits: async () => groups.missing,
  endDrillServer,
  tidy: async () => groups.sweep(),
  leave: async () => groups.leave(),
})

const resourceLimits = (size: CurrentSize) => ({
  cpus: size.cu,
  memoryBytes: (size.memoryCu ?? size.cu) * MIB_PER_CU * 2 ** 20,
  processes: processesFor(size),
})

/** Clocks are set while a machine starts: so much earlier than its start, as counted now, is before it. */
const BOOT_TOLERANCE_MS = 60_000

/** That this machine has started since then; undefined if it has not. */
const restartSince = (then: Date): string | undefined =>
  +then < Date.now() - uptime() * 1000 - BOOT_TOLERANCE_MS ? 'its machine was restarted' : undefined
