import { createVerifierReader } from '../compute_admin/verifiers.ts'
import type { Context } from '../context.ts'
import { requestStart } from '../operations/start_compute.ts'
import { startProxy } from '../proxy/proxy.ts'
import { consoleOrigin, proxyPlaces } from '../public_address.ts'
import { certificateOf } from './certificate.ts'
import type { Part } from './part.ts'
import { isSupervised, sharedListener } from './supervised.ts'

/** The Postgres proxy at its addresses; under a supervisor it shares them with other proxies. */
export async function startProxyPart({ catalog, config, secrets, log, registry }: Context): Promise<Part> {
  const verifiers = createVerifierReader(secrets.stores)
  const proxy = await startProxy({
    catalog,
    // Only the supervisor has checked whether the extra port is free.
    places: proxyPlaces(isSupervised() ? config : { ...config, extraProxyPort: 0 }),
    ...(isSupervised() && { shared: { among: config.proxies, socket: sharedListener } }),
    certificate: certificateOf(config),
    domain: `${config.region}.${config.domain}`,
    wakeTimeoutMs: config.wakeTimeout * 1000,
    poolSize: config.poolSize,
    requestStart: (endpoint, deadComputeId) => requestStart(catalog, endpoint, deadComputeId),
    readVerifier: (address, computeId, role) => verifiers.read(address, computeId, role),
    mockSaltKey: secrets.mockSaltKey(),
    hashLoginCode: (code) => secrets.hashLoginCode(code)[0],
    approvalUrl: (code, address) => `${consoleOrigin(config, address)}/approve/${code}`,
    limits: {
      perEndpoint: config.connectionsPerEndpoint,
      perAddress: config.connectionsPerAddress,
      loggingIn: config.connectionsLoggingIn,
      loggingInPerAddress: config.connectionsLoggingInPerAddress,
      newPerSecond: config.newConnectionsPerSecond,
    },
    forwarders: { proxyProtocol: config.proxyProtocolFrom, forwardedFor: config.forwardedForFrom },
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
