import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { localCatalogServer } from '../../src/compute/process/catalog_server.ts'
import type { Computes } from '../../src/compute/compute.ts'
import { localComputes } from '../../src/compute/process/local_computes.ts'
import { type Catalog, openCatalog } from '../../src/catalog/catalog.ts'
import { embeddedCatalogUrl, embeddedSocketDir } from '../../src/catalog/embedded.ts'
import { migrate } from '../../src/catalog/migrate.ts'
import { hostId } from '../../src/host/id.ts'
import { loadConfig } from '../../src/config.ts'
import { SETTINGS } from '../../src/settings.ts'
import { localStorage } from '../../src/storage/local_storage.ts'
import type { Storage } from '../../src/storage/storage.ts'
import { loadOrCreateSecrets, type Secrets } from '../../src/secrets/secrets.ts'
import { expectNothingLeft } from '../engine/catalogs.ts'
import { postmastersOf } from '../processes.ts'
import { assertAgreement } from './agreement.ts'
import { type Crew, startCrew } from './crew.ts'

/** A real catalog, a real machine with computes, and workers, in a temporary directory. */
export interface Site {
  readonly catalog: Catalog
  readonly storage: Storage
  readonly computes: Computes
  readonly dataDir: string
  readonly secrets: Secrets
  readonly crew: Crew
  /** Runs `work`, which must kill the catalog's server (the given pid), and starts the server again. */
  readonly throughCrash: <T>(work: (catalogPid: number) => Promise<T>) => Promise<T>
  /** An unused path for a fault's mark. */
  readonly newMark: () => string
  /** Asserts that catalog and machine agree completely. No operation may be unfinished. */
  readonly agree: () => Promise<void>
  /** Stops everything, and asserts that the tests left no files or processes. */
  readonly close: () => Promise<void>
}

export async function openSite(): Promise<Site> {
  const dir = mkdtempSync(join(tmpdir(), 'neap-actions-'))
  // Computes run as other users.
  chmodSync(dir, 0o711)
  const [dataDir, runtimeDir, marks] = [join(dir, 'data'), join(dir, 'run'), join(dir, 'marks')]
  mkdirSync(marks)
  mkdirSync(dataDir, { mode: 0o711 })
  const env = {
    [SETTINGS.dataDir.env]: dataDir,
    [SETTINGS.runtimeDir.env]: runtimeDir,
    [SETTINGS.logLevel.env]: 'warn',
    // The least. Branches of parents with more WAL replay it while they are made.
    [SETTINGS.replayMb.env]: '1',
    NODE_COMPILE_CACHE: join(dir, 'cache'),
  }
  const config = loadConfig({}, env)
  const secrets = await loadOrCreateSecrets(config.secretFile)
  const host = { id: await hostId(dataDir), dataDir, runtimeDir, secrets: secrets.stores, log: () => {} }
  const [storage, computes] = [localStorage(host), localComputes(host)]
  const server = localCatalogServer({
    dataDir,
    runtimeDir,
    secrets: secrets.stores,
    socketDir: embeddedSocketDir(runtimeDir),
  })
  await server.start()
  const url = embeddedCatalogUrl(runtimeDir, secrets.catalogPasswords()[0])
  await migrate(url)
  const catalog = openCatalog(url, 4, () => {})
  const crew = startCrew(env, join(dir, 'workers.log'))
  let marked = 0

  async function throughCrash<T>(work: (catalogPid: number) => Promise<T>): Promise<T> {
    const session = await catalog.session()
    const lost = new Promise<void>((resolve) => session.onLost(resolve))
    const running = await server.find()
    assert.ok(running)
    const result = await work(running.pid)
    await lost
    await server.start()
    return result
  }

  async function close(): Promise<void> {
    const wrong = await crew.stop()
    await catalog.close()
    await server.stop()
    const names = (path: string) => readdirSync(path).filter((name) => name !== 'catalog')
    const left = [...['branches', 'trash', 'logs'].flatMap((name) => names(join(dataDir, name))), ...names(runtimeDir)]
    // After a failed test more may remain: remove it as well.
    for (const { pid } of postmastersOf(dir)) process.kill(pid, 'SIGQUIT')
    await expectNothingLeft(dir)
    rmSync(dir, { recursive: true })
    assert.deepEqual([...left, ...wrong], [])
  }

  const agree = () => assertAgreement({ catalog, computes, secrets, dataDir, runtimeDir })
  const newMark = () => join(marks, String(++marked))
  return { catalog, storage, computes, dataDir, secrets, crew, throughCrash, newMark, agree, close }
}
