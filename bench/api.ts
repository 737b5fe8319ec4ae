/*
 * Requests per second of the API, against a bare Fastify route that does one prepared select by primary key on the same
 * catalog.
 */
import { join } from 'node:path'
import { embeddedCatalogUrl } from '../src/catalog/embedded.ts'
import { SETTINGS } from '../src/settings.ts'
import { loadOrCreateSecrets } from '../src/secrets/secrets.ts'
import { startNeap } from '../test/neap.ts'
import { firstPlace, operationsOf } from '../test/project.ts'
import { bareServer, load } from './load/load.ts'
import { percentile, report } from './samples.ts'

const CONNECTIONS = 64
const [rounds = 5, seconds = 4] = process.argv.slice(2).map(Number)
/** The number of catalog connections of the api process. */
const POOL = SETTINGS.workerConcurrency.fallback('') + 4

const perSecond: Record<string, number[]> = { bare: [], 'GET operation': [], 'GET endpoints': [] }
const latency: Record<string, number[]> = {}
const neap = await startNeap({
  env: { NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_CPU_PER_KEY: '0' },
})
try {
  const place = await firstPlace(neap)
  const [operation] = await operationsOf(neap, place)
  if (!operation || !neap.ready.api_key) throw new Error('no operation, or no key')
  const { data_dir, api_key, api_url } = neap.ready
  const secrets = await loadOrCreateSecrets(join(data_dir, 'secret.key'))
  const bare = await bareServer(embeddedCatalogUrl(join(data_dir, 'run'), secrets.catalogPasswords()[0]), POOL)
  const { port, pathname } = new URL(api_url)
  const project = `${pathname}/projects/${place.project_id}`
  const asked = [
    ['bare', bare.port, `/operations/${operation.id}`],
    ['GET operation', Number(port), `${project}/operations/${operation.id}`],
    ['GET endpoints', Number(port), `${project}/endpoints`],
  ] as const
  for (let round = -1; round < rounds; round++) {
    for (const [name, at, path] of asked) {
      const loaded = await load(at, path, api_key, CONNECTIONS, seconds)
      // The first round is a warm-up.
      if (round < 0) continue
      perSecond[name]?.push(loaded.perSecond)
      latency[name] = (latency[name] ?? []).concat(loaded.milliseconds)
    }
  }
  await bare.stop()
} finally {
  await neap.stop()
}

const median = (name: string) => percentile(perSecond[name] ?? [], 0.5)
const ms = Object.entries(latency).map(
  ([name, all]) => `${name} p50 ${percentile(all, 0.5).toFixed(1)}, p99 ${percentile(all, 0.99).toFixed(1)}`,
)
report(
  'api',
  [
    `${CONNECTIONS} connections, each sending the next request when the last is answered, without pipelining, ` +
      'plain HTTP/1.1 keep-alive',
    `load from a process of its own over plain sockets; ${rounds} rounds of ${seconds} s each, in turn; ` +
      'server, catalog and load share the machine',
    'bare: Fastify, no log, one prepared select of the operation by its primary key, ' +
      `${POOL} connections to the same catalog, as the API has`,
    `GET operation, GET endpoints: with an API key, as they are served; rate limits off, log on`,
    `milliseconds: ${ms.join(' · ')}`,
  ],
  perSecond,
  ['GET operation', 'GET endpoints'].map((name) => ({
    what: `${name} / bare, medians`,
    value: median(name) / median('bare'),
    least: 0.8,
    unit: '×',
  })),
  'requests per second',
)
