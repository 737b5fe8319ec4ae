import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command, type Option } from 'commander'
import { bytesText, partOfBytes } from '../bytes.ts'
import type { ApiResponse } from '../client.ts'
import { notedServer } from '../compute/process/server_note.ts'
import { type Overrides, readSetting } from '../config.ts'
import { readState } from '../supervisor/data_dir.ts'
import { wallTable } from '../walls.ts'
import { localClient } from './connect.ts'
import { print } from './print.ts'
import { duration, table } from './table.ts'

/** These answers need no compute. */
const PATIENCE_SECONDS = 10

/** `neap status`: the running computes, their uptime and their memory. */
export function statusCommand(dataDir: Option): Command {
  return new Command('status')
    .description('Show what runs: computes, since when, and their memory.')
    .addOption(dataDir)
    .option('--json', 'print JSON')
    .action(async (flags: Overrides & { json?: boolean }) => {
      const call = localClient(flags)
      const [{ computes, hosts }, { notices }, { postgres_versions: versions }] = await Promise.all([
        call('GET /status', {}, { patience: PATIENCE_SECONDS }),
        call('GET /notices', {}, { patience: PATIENCE_SECONDS }),
        call('GET /postgres_versions', {}, { patience: PATIENCE_SECONDS }),
      ])
      const directory = readSetting('dataDir', flags)
      const remembered = readState(directory)
      const { apiPort, proxyPort, extraProxyPort, apiMetricsPort, workerMetricsPort, proxyMetricsPort, processes } =
        remembered
      const { missingWalls = [], egressMissing = null, limitError = null } = remembered
      const proxyMetricsPorts = remembered.proxyMetricsPorts ?? [proxyMetricsPort]
      const measured = computes.map((compute) => {
        const pid = pidOf(directory, compute)
        return { ...compute, pid, memory_bytes: pid && memoryOf([pid, ...childrenOf(pid)]) }
      })
      if (flags.json) {
        print(
          JSON.stringify({
            pid: processes?.[0]?.pid,
            api_port: apiPort,
            proxy_port: proxyPort,
            extra_proxy_port: extraProxyPort ?? null,
            api_metrics_port: apiMetricsPort,
            worker_metrics_port: workerMetricsPort,
            proxy_metrics_port: proxyMetricsPort,
            proxy_metrics_ports: proxyMetricsPorts,
            missing_walls: missingWalls,
            egress_missing: egressMissing,
            limit_error: limitError,
            computes: measured,
            hosts,
            notices,
            postgres_versions: versions,
          }),
        )
        return
      }
      const rows = measured.map(({ endpoint_id, branch_id, state, cu, pid, started_at, memory_bytes }) => [
        endpoint_id,
        branch_id,
        state,
        `${cu} CU`,
        pid ? String(pid) : '-',
        pid && started_at ? duration(Date.now() - Date.parse(started_at)) : '-',
        memory_bytes === undefined ? '-' : `${(memory_bytes / 2 ** 20).toFixed(0)} MiB`,
      ])
      const lines = [
        `Neap runs (pid ${processes?.[0]?.pid}), API on port ${apiPort}, ` +
          `proxy on port ${[proxyPort, extraProxyPort].filter(Boolean).join(' and ')}.`,
        `Metrics: /metrics on the ports ${apiMetricsPort} (API), ${workerMetricsPort} (worker), ` +
          `${proxyMetricsPorts.join(', ')} (proxy).`,
        rows.length === 0
          ? 'No compute runs: a connection wakes one.'
          : table(['ENDPOINT', 'BRANCH', 'STATE', 'SIZE', 'PID', 'UP', 'MEMORY'], rows),
        ...hosts.flatMap((host) => hostLines(host, hosts.length > 1)),
        ...versions.map(versionLine),
        ...notices.map(noticeLine),
        wallTable(missingWalls, egressMissing, limitError),
      ]
      print(lines.filter(Boolean).join('\n'))
    })
}

type Host = ApiResponse<'GET /status'>['hosts'][number]

/** The room and the disk of a host. */
function hostLines(host: Host, isNamed: boolean): string[] {
  const { id, capacity_cu, used_cu, disk_bytes, disk_free_bytes, branch_bytes, storage, image } = host
  const on = isNamed ? ` on ${id}` : ''
  const room = `Room${on}: ${used_cu} of ${capacity_cu} CU in use.`
  const free = disk_bytes !== undefined && disk_free_bytes !== undefined && partOfBytes(disk_free_bytes, disk_bytes)
  // 0: there is no branch, or its files were not measured yet.
  const taken = storage ? `; with templates they take ${bytesText(storage.real_bytes)}` : ''
  const files = branch_bytes === 0 ? '' : `; the files of branches have ${bytesText(branch_bytes)}${taken}`
  const disk = `Disk${on}: ${free} free${files}.`
  const growth = image?.growable_bytes ? [`The image${on} may grow by ${bytesText(image.growable_bytes)}.`] : []
  const problem = image?.problem === undefined ? [] : [image.problem]
  return [...(capacity_cu === undefined ? [] : [room]), ...(free ? [disk] : []), ...growth, ...problem]
}

type Version = ApiResponse<'GET /postgres_versions'>['postgres_versions'][number]

/** Extensions that people look for, beside those that come with Postgres itself. */
const SOUGHT = ['vector', 'postgis', 'pg_partman', 'hypopg']

/** A version in one line, such as "Postgres 15: 52 extensions, with postgis 3.3.2." */
function versionLine({ version, extensions }: Version): string {
  const sought = extensions.filter(({ name }) => SOUGHT.includes(name))
  const named = sought.map(({ name, default_version }) => `${name} ${default_version}`).join(', ')
  return `Postgres ${version}: ${extensions.length} extensions${named && `, with ${named}`}.`
}

type Notice = ApiResponse<'GET /notices'>['notices'][number]

/** A notice in one line, such as "90 % of the disk of host-1 is used: 9.0 of 10.0 GiB, all of it by 2026-12-01." */
function noticeLine({ limit, level, used, most, host_id, branch_id, project_id, full_at }: Notice): string {
  const [what, unit] = LIMITS[limit] ?? [limit, 'bytes']
  const subject = branch_id ?? project_id ?? host_id ?? 'the account'
  const amount = unit === 'bytes' ? partOfBytes(used, most) : `${Math.round(used)} of ${most} ${unit}`
  const forecast = full_at === undefined ? '' : `, all of it by ${full_at.slice(0, 16).replace('T', ' ')} UTC`
  return `${level} % of ${what} of ${subject} is used: ${amount}${forecast}.`
}

const LIMITS: Readonly<Record<string, readonly [what: string, unit: string]>> = {
  host_disk: ['the disk', 'bytes'],
  logical_size_bytes: ['the size limit', 'bytes'],
  active_time_seconds: ["the month's active time", 's'],
  compute_time_seconds: ["the month's compute time", 'CU-seconds'],
  written_data_bytes: ["the month's written data", 'bytes'],
  data_transfer_bytes: ["the month's transfer", 'bytes'],
}

/** The process of a compute; undefined when it runs on another host. */
function pidOf(dataDir: string, { store_id, compute_id }: { store_id?: string; compute_id?: string }) {
  const server = store_id === undefined ? undefined : notedServer(join(dataDir, 'branches', store_id))
  return server?.instance === compute_id ? server?.pid : undefined
}

/** Memory of processes in bytes, with each shared page counted once (PSS); undefined when /proc lacks it. */
function memoryOf(family: readonly number[]): number | undefined {
  const sizes = family.map((pid) => Number(/^Pss: +(\d+)/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? NaN) * 1024)
  const sum = sizes.reduce((total, size) => total + (Number.isNaN(size) ? 0 : size), 0)
  return sum || undefined
}

/** The processes that a compute's first one has started. */
const childrenOf = (pid: number): number[] =>
  read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
