import { Counter, Histogram, type Registry } from 'prom-client'
import { addGauge } from './gauge.ts'

/** Counts the connections, wakes and traffic of a proxy. */
export interface ProxyMetrics {
  readonly opened: () => void
  /** The proxy refused a client. */
  readonly refused: (reason: string) => void
  /** A session for a client that found its endpoint idle, or its compute gone, was opened, after so many seconds. */
  readonly handedOver: (seconds: number) => void
  /** A wake, for any number of clients, ended: `ready`, or the reason of its failure. */
  readonly woke: (outcome: string) => void
  /** Bytes that passed between clients and computes since the last call. */
  readonly passed: (bytes: { readonly toClients: number; readonly fromClients: number }) => void
}

/** The current state, read at each scrape. */
export interface ProxyCensus {
  /** Open connections of clients. */
  readonly connections: () => number
  /** Clients that have logged in. */
  readonly sessions: () => number
  /** Of these, the clients of paused endpoints, while a suspend is tried. */
  readonly paused: () => number
}

const WAKE_SECONDS = [0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/** @param reasons all reasons: their series begin at zero, so that a first refusal is seen as an increase */
export function createProxyMetrics(registry: Registry, reasons: readonly string[], census: ProxyCensus): ProxyMetrics {
  const registers = [registry]
  const gauges = [
    ['neap_proxy_connections', 'Connections of clients that are open.', census.connections],
    ['neap_proxy_sessions', 'Clients that have logged in, waiting or joined to a compute.', census.sessions],
    ['neap_proxy_held_sessions', 'Sessions held back while their endpoint tries to go to sleep.', census.paused],
  ] as const
  for (const [name, help, read] of gauges) addGauge(registry, { name, help }, read)
  const opened = new Counter({
    name: 'neap_proxy_connections_total',
    help: 'Connections that clients have opened.',
    registers,
  })
  const refused = new Counter({
    name: 'neap_proxy_refused_total',
    help: 'Connections that the proxy itself has refused, by reason.',
    labelNames: ['reason'],
    registers,
  })
  const wake = new Histogram({
    name: 'neap_wake_seconds',
    help: 'For a session whose endpoint was asleep: from the end of the login until its compute was ready for queries.',
    buckets: WAKE_SECONDS,
    registers,
  })
  const wakes = new Counter({
    name: 'neap_wakes_total',
    help: 'Wakes that this proxy asked for, each for any number of clients, by outcome: ready, or why not.',
    labelNames: ['outcome'],
    registers,
  })
  const bytes = new Counter({
    name: 'neap_proxy_bytes_total',
    help:
      'Bytes that passed between clients and computes, inside TLS, by direction (to_client, from_client), ' +
      'as of a second ago.',
    labelNames: ['direction'],
    registers,
  })
  for (const direction of ['to_client', 'from_client']) bytes.inc({ direction }, 0)
  for (const reason of reasons) refused.inc({ reason }, 0)
  for (const outcome of ['ready', 'start_failed', 'not_in_time']) wakes.inc({ outcome }, 0)
  return {
    opened: () => opened.inc(),
    refused: (reason) => refused.inc({ reason }),
    handedOver: (seconds) => wake.observe(seconds),
    woke: (outcome) => wakes.inc({ outcome }),
    passed({ toClients, fromClients }) {
      bytes.inc({ direction: 'to_client' }, toClients)
      bytes.inc({ direction: 'from_client' }, fromClients)
    },
  }
}
