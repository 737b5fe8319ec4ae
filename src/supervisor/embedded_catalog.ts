import { setTimeout as sleep } from 'node:timers/promises'
import { localCatalogServer } from '../compute/process/catalog_server.ts'
import { chosenPrograms } from '../host/binaries.ts'
import { type Backoff, backoffMs } from '../backoff.ts'
import { type Catalog, openCatalog } from '../catalog/catalog.ts'
import { CATALOG_ADMIN, type EmbeddedLogin, embeddedSocketDir } from '../catalog/embedded.ts'
import type { Config } from '../config.ts'
import { fillReserve, lacksWalRoom, withReserve } from '../disk_reserve.ts'
import { messageOf } from '../errors.ts'
import { withSignal } from '../race.ts'
import type { Secrets } from '../secrets/secrets.ts'
import type { Storage } from '../storage/storage.ts'
import type { ProgressReporter } from './progress.ts'

const PG_VERSION = 18
const RESTART: Backoff = { firstMs: 250, maxMs: 5_000 }
const STOP_MS = 60_000
/** Between two looks whether the disk has room for the reserve. */
const FILL_RESERVE_MS = 20_000

/** The Postgres server that holds the catalog. The embedded one outlives this process, and the next start finds it. */
export interface EmbeddedCatalog {
  readonly target: string | EmbeddedLogin
  /** Restarts it whenever it ends, with growing pauses after failed attempts, and reports that through `say`. */
  watch(say: (line: string) => void): Promise<void>
  /** Stops watching it and leaves it running. */
  leave(): Promise<void>
  stop(): Promise<void>
}

/** Fills the reserve on the disk whenever there is room, until the signal. */
function keepReserve(config: Config, ended: AbortSignal, say: (line: string) => void): void {
  const fill = () =>
    fillReserve(config).catch((error: unknown) => say(`no room could be reserved: ${messageOf(error)}`))
  const timer = setInterval(() => void fill(), FILL_RESERVE_MS)
  ended.addEventListener('abort', () => clearInterval(timer))
}

type Session = Awaited<ReturnType<Catalog['session']>>

/** Starts the embedded catalog or finds it running. The operator's own (`catalogUrl`) is left to the operator. */
export async function openEmbeddedCatalog(
  config: Config,
  secrets: Secrets,
  storage: Storage,
  progress: ProgressReporter,
): Promise<EmbeddedCatalog> {
  await progress.during('preparing Postgres (once)', storage.prepare(PG_VERSION))
  if (config.catalogUrl)
    return { target: config.catalogUrl, watch: async () => {}, leave: async () => {}, stop: async () => {} }

  const target: EmbeddedLogin = {
    ...config,
    user: CATALOG_ADMIN,
    passwords: secrets.catalogPasswords,
    reload: secrets.reload,
  }
  const server = localCatalogServer({
    ...config,
    secrets: secrets.stores,
    socketDir: embeddedSocketDir(config.runtimeDir),
    programs: chosenPrograms(config.postgres),
  })
  const start = () =>
    withReserve(
      config,
      () => lacksWalRoom(config),
      () => server.start(),
    )
  await progress.during('starting the catalog', start())
  const catalog = openCatalog(target, 1, () => {})
  const release = new AbortController()
  const released = release.signal
  let watching: Promise<void> = Promise.resolve()

  /** A session reports at once that its server is gone. */
  async function keepRunning(first: Session, say: (line: string) => void): Promise<void> {
    let session: Session | undefined = first
    let failures = 0
    while (!released.aborted) {
      if (session) {
        const lost = new Promise<void>((resolve) => (session as Session).onLost(resolve))
        await withSignal(lost, released).catch(() => {})
        if (released.aborted) return session.end()
        say('the catalog ended; starting it again')
        failures = 0
      }
      session = await startAgain((error) => {
        failures++
        const seconds = backoffMs(failures, RESTART) / 1000
        say(`the catalog could not be started (${messageOf(error)}); trying again in ${seconds} s`)
      })
      if (!session) await sleep(backoffMs(failures, RESTART), undefined, { signal: released }).catch(() => {})
    }
    await session?.end()
  }

  async function startAgain(failed: (error: unknown) => void): Promise<Session | undefined> {
    try {
      await start()
      return await catalog.session()
    } catch (error) {
      failed(error)
      return undefined
    }
  }

  async function leave(): Promise<void> {
    release.abort()
    await watching
    await catalog.close()
  }

  return {
    target,
    async watch(say) {
      watching = keepRunning(await catalog.session(), say)
      keepReserve(config, released, say)
    },
    leave,
    async stop() {
      await leave()
      if (!(await server.stop(STOP_MS)))
        progress.say('The catalog does not stop: it is left as it is, and the next start finds it.')
    },
  }
}
