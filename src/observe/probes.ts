import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import { createPipelineLimit } from '../pipelining.ts'
import type { Readiness } from './readiness.ts'

/** The paths that every process answers without a key: counts and states only. */
export const PROBES = ['/metrics', '/healthz', '/readyz'] as const

export interface ProbeAnswer {
  readonly status: number
  readonly type: string
  readonly body: string
}

export type Probes = (path: (typeof PROBES)[number]) => Promise<ProbeAnswer>

/**
 * `/metrics` for Prometheus; `/healthz`: the process and its event loop run; `/readyz`: the failed readiness checks.
 */
export function createProbes(part: string, registry: Registry, readiness: Readiness): Probes {
  let rendering: Promise<string> | undefined
  /** Requests during a collection share its result: all processes of this machine may ask. */
  function metrics(): Promise<string> {
    rendering ??= registry.metrics().finally(() => (rendering = undefined))
    return rendering
  }
  return async (path) => {
    if (path === '/metrics') return { status: 200, type: registry.contentType, body: await metrics() }
    if (path === '/healthz') return json(200, { status: 'ok', part })
    const missing = await readiness()
    if (Object.keys(missing).length === 0) return json(200, { status: 'ready', part })
    return json(503, { status: 'not ready', part, missing })
  }
}

const json = (status: number, body: object): ProbeAnswer => ({
  status,
  type: 'application/json; charset=utf-8',
  body: `${JSON.stringify(body)}\n`,
})

export interface ProbeServer {
  readonly port: number
  stop(): Promise<void>
}

const HOST = '127.0.0.1'
const MAX_PORTS = 20

/**
 * Serves the probes on a loopback port of their own. If the port is taken, takes the next free one: a process works
 * even if its metrics are not scraped.
 * @param port 0 takes any that is free
 */
export async function startProbeServer(probes: Probes, port: number): Promise<ProbeServer> {
  const isWithinPipeline = createPipelineLimit()
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 }, (request, response) => {
    if (!isWithinPipeline(request, response)) return
    const path = PROBES.find((each) => each === request.url?.split('?')[0])
    const reads = request.method === 'GET' || request.method === 'HEAD'
    const answer =
      path && reads ? probes(path) : Promise.resolve(json(404, { message: `Ask for ${PROBES.join(', ')}.` }))
    void answer
      .catch((error: unknown) => json(500, { message: error instanceof Error ? error.message : String(error) }))
      .then(({ status, type, body }) => {
        response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
        response.end(request.method === 'HEAD' ? undefined : body)
      })
  })
  const next = port === 0 ? [] : Array.from({ length: MAX_PORTS }, (_, index) => port + index)
  for (const each of [...next, 0]) if (await listens(server, each)) break
  return {
    port: (server.address() as AddressInfo).port,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Returns false if the port is taken or beyond the last; rejects with other errors. */
function listens(server: Server, port: number): Promise<boolean> {
  if (port > 65_535) return Promise.resolve(false)
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException): void => {
      if (error.code === 'EADDRINUSE') resolve(false)
      else reject(error)
    }
    server.once('error', failed)
    server.listen({ host: HOST, port, exclusive: true }, () => {
      server.off('error', failed)
      resolve(true)
    })
  })
}
