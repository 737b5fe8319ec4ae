import { Counter, type Registry } from 'prom-client'
import { withTimeout } from '../race.ts'
import { addGauge, type LabeledValue } from './gauge.ts'

/** The connections of a pool, and the number of callers that wait for one. */
export interface PoolCensus {
  readonly total: number
  readonly idle: number
  readonly waiting: number
}

/** Adds gauges of this process's connections to the catalog. Returns a function that counts a lost connection. */
export function createConnectionMetrics(registry: Registry, read: () => PoolCensus): () => void {
  const connections = {
    name: 'neap_catalog_connections',
    help: "Connections of this process's pool to the catalog, by state (busy, idle).",
    label: 'state',
  }
  const waiting = { name: 'neap_catalog_waiting', help: 'Who waits in this process for a connection of the pool.' }
  addGauge(registry, connections, () => {
    const { total, idle } = read()
    return { busy: total - idle, idle }
  })
  addGauge(registry, waiting, () => read().waiting)
  const lost = new Counter({
    name: 'neap_catalog_connections_lost_total',
    help: 'Connections to the catalog that ended unasked or could not be made again.',
    registers: [registry],
  })
  return () => lost.inc()
}

/** Figures read from the catalog. */
export interface CatalogCensus {
  readonly operations: Readonly<Record<'scheduling' | 'running', number>>
  /** Seconds since the oldest due operation that has not begun could have begun; 0 without one. */
  readonly queueAge: number
  readonly endpoints: Readonly<Record<'active' | 'idle' | 'init' | 'disabled', number>>
  /** CU by host: what the sizes of its computes may sum up to, where that is limited, and what they do. */
  readonly capacity: Readonly<Record<string, number>>
  readonly used: Readonly<Record<string, number>>
  /** Bytes of the disks by host, and the free ones. */
  readonly disk: Readonly<Record<string, number>>
  readonly diskFree: Readonly<Record<string, number>>
  /** Bytes of the files of branches by host. */
  readonly branchBytes: Readonly<Record<string, number>>
  /** 1 for each host on which branches are cloned, 0 where they are copied. */
  readonly clones: Readonly<Record<string, number>>
  /** By host, mode and kind: the bytes of all files of stores, and of their blocks. */
  readonly storage: readonly LabeledValue[]
  /** Of hosts' images: the size, the most that it may grow by, and 1 where it is short and cannot grow; 0 without. */
  readonly imageBytes: Readonly<Record<string, number>>
  readonly imageGrowable: Readonly<Record<string, number>>
  readonly imageShort: Readonly<Record<string, number>>
}

/** The catalog is queried once per interval, for any number of scrapes. */
const FRESH_MS = 1_000
/** Time-out of the query: a scrape has one itself. */
const LONGEST_MS = 2_000

/** Adds gauges of the catalog's figures. They are left out while it does not answer in time. */
export function createCensusMetrics(registry: Registry, read: () => Promise<CatalogCensus>): void {
  const ask = remembered(read)
  const unfinished = {
    name: 'neap_operations_unfinished',
    help: 'Operations that have not ended, by status (scheduling, running).',
    label: 'status',
  }
  const queueAge = {
    name: 'neap_operation_queue_age_seconds',
    help: 'How long the oldest operation that is due has not been begun.',
  }
  const endpoints = {
    name: 'neap_endpoints',
    help: 'Endpoints by state: active, idle, init (never started), disabled.',
    label: 'state',
  }
  addGauge(registry, unfinished, async () => (await ask())?.operations)
  addGauge(registry, queueAge, async () => (await ask())?.queueAge)
  const capacity = {
    name: 'neap_host_capacity_cu',
    help: 'What the sizes of the computes of a host may sum up to, in CU.',
    label: 'host',
  }
  const used = {
    name: 'neap_host_used_cu',
    help: 'What the sizes of the computes of a host sum up to, in CU.',
    label: 'host',
  }
  addGauge(registry, endpoints, async () => (await ask())?.endpoints)
  addGauge(registry, capacity, async () => (await ask())?.capacity)
  addGauge(registry, used, async () => (await ask())?.used)
  const disk = {
    name: 'neap_host_disk_bytes',
    help: 'The disk of the stores of a host: that of its data directory, or their image.',
    label: 'host',
  }
  const diskFree = {
    name: 'neap_host_disk_free_bytes',
    help: 'What is free of the disk of the stores of a host.',
    label: 'host',
  }
  const clones = {
    name: 'neap_host_clones_files',
    help: 'Whether branches of a host are cloned (1) or copied byte by byte (0).',
    label: 'host',
  }
  addGauge(registry, clones, async () => (await ask())?.clones)
  addGauge(registry, disk, async () => (await ask())?.disk)
  addGauge(registry, diskFree, async () => (await ask())?.diskFree)
  const branchBytes = {
    name: 'neap_host_branch_bytes',
    help: 'The files of the branches of a host, as last measured; blocks that branches share count for each.',
    label: 'host',
  }
  addGauge(registry, branchBytes, async () => (await ask())?.branchBytes)
  addStorageGauges(registry, ask)
}

function addStorageGauges(registry: Registry, ask: () => Promise<CatalogCensus | undefined>): void {
  const storage = {
    name: 'neap_host_storage_bytes',
    help: 'The stores of a host, by how they are cloned: the sizes of their files (apparent), their blocks (real).',
    label: ['host', 'mode', 'kind'],
  }
  const imageBytes = {
    name: 'neap_host_image_bytes',
    help: 'What the image of the stores of a host takes of the disk below.',
    label: 'host',
  }
  const growable = {
    name: 'neap_host_image_growable_bytes',
    help: 'By how much the image of the stores of a host may still grow by itself.',
    label: 'host',
  }
  const short = {
    name: 'neap_host_image_short',
    help: 'Whether the image of the stores of a host is short of room and cannot grow (1).',
    label: 'host',
  }
  addGauge(registry, storage, async () => (await ask())?.storage)
  addGauge(registry, imageBytes, async () => (await ask())?.imageBytes)
  addGauge(registry, growable, async () => (await ask())?.imageGrowable)
  addGauge(registry, short, async () => (await ask())?.imageShort)
}

/** Callers share an answer that is under way or fresh; undefined if it failed or takes too long. */
function remembered<T>(read: () => Promise<T>): () => Promise<T | undefined> {
  let answer: Promise<T | undefined> | undefined
  return () => {
    answer ??= read()
      .catch(() => undefined)
      .finally(() => setTimeout(() => (answer = undefined), FRESH_MS).unref())
    return withTimeout(answer, LONGEST_MS, undefined)
  }
}
