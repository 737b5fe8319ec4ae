import { sql } from '../catalog/sql.ts'
import type { Context } from '../context.ts'
import { createProbes, type Probes, startProbeServer } from '../observe/probes.ts'
import { type Check, createReadiness } from '../observe/readiness.ts'
import type { PartName } from '../secrets/part_keys.ts'

/** The probes of a part on a port of their own, available before the part has started, which takes a worker long. */
export interface PartProbes {
  readonly port: number
  readonly probes: Probes
  /** Sets the reason why the part cannot work; undefined while it works. */
  missing(what: string | undefined): void
  stop(): Promise<void>
}

const PORTS = { api: 'apiMetricsPort', worker: 'workerMetricsPort', proxy: 'proxyMetricsPort' } as const

const STARTING = {
  api: 'it does not listen yet',
  worker: 'what runs on this machine is being compared with the catalog',
  proxy: 'it does not listen yet',
} as const

/** Starts the probes; a taken port is replaced by another. */
export async function startProbes(name: PartName, context: Context): Promise<PartProbes> {
  let missing: string | undefined = STARTING[name]
  const wanted = context.config[PORTS[name]]
  const probes = probesOf(name, context, { [name]: () => missing })
  const server = await startProbeServer(probes, wanted)
  if (wanted !== 0 && server.port !== wanted)
    context.log.warn({ wanted, port: server.port }, 'the port for metrics is taken: another one is used')
  return {
    port: server.port,
    probes,
    missing: (what) => (missing = what),
    stop: () => server.stop(),
  }
}

/**
 * The probes of a process: ready while the catalog answers, its notifications arrive, and the checks in `more` pass.
 */
function probesOf(name: PartName, { catalog, registry }: Context, more: Record<string, Check> = {}): Probes {
  const readiness = createReadiness(registry, {
    catalog: async () => void (await catalog.row(sql`select 1`)),
    notifications: () => (catalog.hears() ? undefined : 'the connection by which the catalog tells of changes is lost'),
    ...more,
  })
  return createProbes(name, registry, readiness)
}
