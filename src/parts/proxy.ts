import { join } from 'node:path'
import { createVerifierReader } from '../compute/verifiers.ts'
import type { Context } from '../context.ts'
import { requestStart } from '../operations/start_compute.ts'
import { startProxy } from '../proxy/proxy.ts'
import { ensureCertificates } from '../tls/certificates.ts'
import { operatorFiles } from '../tls/operator.ts'
import type { Part } from './part.ts'
import { isSupervised, sharedListener } from './supervised.ts'

/** The Postgres proxy on its loopback port, which it shares with others under a supervisor. */
export async function startProxyPart({ catalog, config, secrets, log, registry }: Context): Promise<Part> {
  const operators = operatorFiles(config)
  const verifiers = createVerifierReader(secrets.stores)
  const proxy = await startProxy({
    catalog,
    host: '127.0.0.1',
    port: config.proxyPort,
    ...(isSupervised() && { shared: { among: config.proxies, socket: sharedListener } }),
    certificate: async () => operators ?? ensureCertificates(join(config.dataDir, 'tls'), config),
    domain: `${config.region}.${config.domain}`,
    wakeTimeoutMs: config.wakeTimeout * 1000,
    poolSize: config.poolSize,
    requestStart: (endpointId, deadPid) => requestStart(catalog, endpointId, deadPid),
    readVerifier: (address, pid, role) => verifiers.read(address, pid, role),
    mockSaltKey: secrets.mockSaltKey(),
    limits: {
      perEndpoint: config.connectionsPerEndpoint,
      perAddress: config.connectionsPerAddress,
      loggingIn: config.connectionsLoggingIn,
      loggingInPerAddress: config.connectionsLoggingInPerAddress,
      newPerSecond: config.newConnectionsPerSecond,
    },
    log,
    registry,
  })
  return {
    port: proxy.port,
    drain: () => proxy.drain(config.proxyDrain * 1000),
    async stop() {
      await proxy.stop()
      verifiers.close()
    },
  }
}
