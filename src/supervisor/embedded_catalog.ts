import { localCatalogServer } from '../backends/local/catalog_server.ts'
import type { Backend } from '../backends/backend.ts'
import { openCatalog } from '../catalog/catalog.ts'
import { EMBEDDED_PORT, embeddedCatalogUrl, embeddedSocketDir } from '../catalog/embedded.ts'
import type { Config } from '../config.ts'
import type { Secrets } from '../secrets.ts'
import type { Progress } from './progress.ts'

const PG_VERSION = 18
const AGAIN_MS = 500

/** The Postgres that holds the catalog. The embedded one outlives this process, and is found again. */
export interface EmbeddedCatalog {
  readonly url: string
  /** Keeps it running: when it ends by itself it is started again. */
  watch(onRestart: () => void): Promise<void>
  stop(): Promise<void>
}

/** Starts the embedded catalog or finds it running. One of the operator's (`catalogUrl`) is left to the operator. */
export async function openEmbeddedCatalog(
  config: Config,
  secrets: Secrets,
  backend: Backend,
  progress: Progress,
): Promise<EmbeddedCatalog> {
  const adminPassword = secrets.adminPassword()
  await progress.during('preparing Postgres (once)', backend.prepare(PG_VERSION))
  if (config.catalogUrl) return { url: config.catalogUrl, watch: async () => {}, stop: async () => {} }

  const url = embeddedCatalogUrl(config.runtimeDir, adminPassword)
  const server = localCatalogServer({
    ...config,
    adminPassword,
    socketDir: embeddedSocketDir(config.runtimeDir),
    port: EMBEDDED_PORT,
  })
  await progress.during('starting the catalog', server.start())
  const catalog = openCatalog(url, 1, () => {})
  let stopping = false

  async function watch(onRestart: () => void): Promise<void> {
    const session = await catalog.session()
    session.onLost(() => {
      if (stopping) return
      onRestart()
      const again = (): Promise<void> =>
        server
          .start()
          .then(() => watch(onRestart))
          .catch(() => void setTimeout(() => void again(), AGAIN_MS))
      void again()
    })
  }

  return {
    url,
    watch,
    async stop() {
      stopping = true
      await server.stop()
      await catalog.close()
    },
  }
}
