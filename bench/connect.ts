/* Latency of a new connection to a running compute, through the proxy and directly to a Postgres with TLS. */
import pg from 'pg'
import { makeServers } from '../test/proxy/servers.ts'
import { clientConfig, neapTarget, startDirect, startForLoad } from './load/targets.ts'
import { percentile, report } from './samples.ts'

const ROUNDS = Number(process.argv[2] ?? 300)
const WARM_UP = 20

const neap = await startForLoad()
const servers = await makeServers()
const through: number[] = []
const direct: number[] = []
try {
  const ofProxy = clientConfig(neapTarget(neap))
  const ofDirect = clientConfig((await startDirect(servers)).target)
  for (let round = 0; round < ROUNDS + WARM_UP; round++) {
    const [one, other] = [await firstRow(ofProxy), await firstRow(ofDirect)]
    if (round < WARM_UP) continue
    through.push(one)
    direct.push(other)
  }
} finally {
  await Promise.all([neap.stop(), servers.close()])
}

async function firstRow(config: pg.ClientConfig): Promise<number> {
  const begun = performance.now()
  const client = new pg.Client(config)
  await client.connect()
  await client.query('select 1')
  const ms = performance.now() - begun
  await client.end()
  return ms
}

report(
  'connect',
  [
    'through: a new TCP connection, TLS 1.3, SCRAM-SHA-256 and `select 1` by the same driver, ' +
      'through the proxy to a compute that runs',
    'direct:  the same straight at a Postgres with TLS, a certificate of the same kind ' +
      'and SCRAM with as many iterations',
    'one after the other, in turn, in one run; the first of both are left out',
  ],
  { through, direct },
  [{ what: 'p50 / direct p50', value: percentile(through, 0.5) / percentile(direct, 0.5), most: 1.3, unit: '×' }],
)
