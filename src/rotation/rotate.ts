/*
 * Replaces every secret of a running Neap. The key file records the progress: repeated after a kill at any point, it
 * resumes there.
 *
 *   one key ──▶ every part reads a next one ──▶ it is current, and every part knows
 *           ──▶ all is moved to it ──▶ the old one is gone
 *
 * No part writes with the new key before all can read it, or needs the old one when it is destroyed.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { renewPasswords, storesWithOtherPasswords } from '../compute/process/renew_passwords.ts'
import { countApiKeys } from '../catalog/api_key.ts'
import { ROTATION_LOCK } from '../catalog/advisory_locks.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { embeddedSocketDir } from '../catalog/embedded.ts'
import { runningStores } from '../catalog/compute.ts'
import { type KeyReader, keyReaders, notifyKeysChanged } from '../catalog/key_reader.ts'
import { setProxyPassword } from '../catalog/proxy_role.ts'
import { sql } from '../catalog/sql.ts'
import type { Config } from '../config.ts'
import { UsageError } from '../errors.ts'
import { scramVerifier } from '../postgres/scram_verifier.ts'
import { apiKeyHashKey, writePartKeys } from '../secrets/part_keys.ts'
import { type Generation, newGeneration, readOrCreateRing, type Ring, writeRing } from '../secrets/ring.ts'
import type { Secrets } from '../secrets/secrets.ts'
import { CATALOG } from '../secrets/stores.ts'
import { prepareAuthority } from '../tls/certificates.ts'
import { operatorFiles } from '../tls/operator.ts'
import { resealAll } from './reseal.ts'
import { withCatalog } from './with_catalog.ts'

export type RotationStep = 'made' | 'current' | 'sealed' | 'stores' | 'catalog' | 'authority' | 'retired'

export interface RotateOptions {
  readonly config: Config
  /** Called after each step. */
  readonly onStep?: (step: RotationStep) => void
}

/** Rotates all secrets. Errors: UsageError, with the remedy; a second call resumes where it ended. */
export function rotate({ config, onStep = () => {} }: RotateOptions): Promise<void> {
  return withCatalog(config, async (catalog, secrets) => {
    const session = await catalog.session()
    try {
      const lock = await session.row<{ taken: boolean }>(sql`select pg_try_advisory_lock(${ROTATION_LOCK}) as taken`)
      if (!lock?.taken) throw new UsageError('The secrets are being rotated already: wait for that to end.')
      await rotateWith({ config, catalog, secrets, ring: await readOrCreateRing(config.secretFile), onStep })
    } finally {
      await session.end()
    }
  })
}

interface Rotation {
  readonly config: Config
  readonly catalog: Catalog
  readonly secrets: Secrets
  ring: Ring
  readonly onStep: (step: RotationStep) => void
}

async function rotateWith(rotation: Rotation): Promise<void> {
  const { config, catalog, secrets, onStep } = rotation
  const isIn = (state: Generation['state']): boolean => rotation.ring.generations.some((each) => each.state === state)
  if (!isIn('old')) {
    if (!isIn('next')) await change(rotation, (generations) => [...generations, newGeneration('next')])
    await distribute(rotation)
    onStep('made')
    await change(rotation, (generations) => generations.map(advanced))
  }
  await distribute(rotation)
  onStep('current')
  await awaitOlderTransactions(catalog)
  await resealAll(catalog, secrets)
  onStep('sealed')
  await renewStores(rotation)
  onStep('stores')
  if (!config.catalogUrl) {
    await renewCatalog(rotation)
    onStep('catalog')
  }
  if (!operatorFiles(config)) {
    await prepareAuthority(join(config.dataDir, 'tls'))
    onStep('authority')
  }
  const kept = new Set((await countApiKeys(catalog)).map(({ generation }) => generation))
  await change(rotation, (generations) => generations.map((each) => retired(each, kept)))
  await distribute(rotation)
  onStep('retired')
}

const advanced = (each: Generation): Generation => {
  if (each.state === 'current') return { ...each, state: 'old' }
  return each.state === 'next' ? { ...each, state: 'current' } : each
}

/** Of an old generation keeps only the key that hashes API keys, while some of those have not been used since. */
function retired(each: Generation, kept: ReadonlySet<string>): Generation {
  if (each.state !== 'old' && each.state !== 'retired') return each
  const apiKey = each.master ? apiKeyHashKey(each.master) : each.apiKey
  return { ...each, state: 'retired', master: undefined, apiKey: kept.has(each.id) ? apiKey : undefined }
}

/** Writes another ring. Errors: UsageError (another rotation has written one since, as while this one was stopped). */
async function change(rotation: Rotation, to: (generations: readonly Generation[]) => Generation[]): Promise<void> {
  const { config, ring } = rotation
  if ((await readOrCreateRing(config.secretFile)).revision !== ring.revision)
    throw new UsageError('Another rotation has changed the keys meanwhile. Run this again.')
  rotation.ring = { ...ring, revision: ring.revision + 1, generations: to(ring.generations) }
  await writeRing(config.secretFile, rotation.ring)
}

const PATIENCE_MS = 30_000
const LOOK_MS = 50

/** Gives the present keys to every running part, and returns when all have read them. Errors: UsageError. */
async function distribute({ config, catalog, secrets, ring }: Rotation): Promise<void> {
  await writePartKeys(config.dataDir, ring)
  await secrets.reload()
  await notifyKeysChanged(catalog)
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const behind = (await keyReaders(catalog)).filter(({ revision }) => revision < ring.revision)
    if (behind.length === 0) return
    if (performance.now() > deadline) throw new UsageError(`${behind.map(whyBehind).join(' ')} Then run this again.`)
    await sleep(LOOK_MS)
  }
}

const whyBehind = ({ part, address }: KeyReader): string =>
  address === ''
    ? `neap ${part} has not read the new keys within 30 s: see its log, or end it.`
    : `neap ${part} on ${address} has not the new keys: ` +
      `copy keys/${part}.key of the data directory there, and restart it.`

const LONGEST_TRANSACTION_MS = 60_000

/** Waits for catalog transactions that began before now: they may write with the previous key. */
async function awaitOlderTransactions(catalog: Catalog): Promise<void> {
  const since = (await catalog.row<{ now: string }>(sql`select clock_timestamp() as now`))?.now ?? ''
  const deadline = performance.now() + LONGEST_TRANSACTION_MS
  while (performance.now() < deadline) {
    const older = await catalog.row(sql`
      select from pg_stat_activity
       where datname = current_database() and xact_start < ${since}::timestamptz and pid <> pg_backend_pid() limit 1`)
    if (!older) return
    await sleep(LOOK_MS)
  }
  throw new UsageError('A transaction in the catalog takes longer than a minute. When it has ended, run this again.')
}

/** Gives running stores their new passwords; idle ones get theirs at their next start. Errors: UsageError. */
async function renewStores({ config, catalog, secrets }: Rotation): Promise<void> {
  // A compute that does not answer must not keep others from their passwords. The remaining ones are found below.
  for (const store of await runningStores(catalog))
    await renewPasswords(config, store, secrets.stores).catch(() => undefined)
  const left = await storesWithOtherPasswords(config, secrets.stores, { running: true })
  if (left.length > 0)
    throw new UsageError(
      `These computes do not answer: ${left.join(', ')}. Suspend or restart them, then run this again.`,
    )
}

async function renewCatalog({ config, catalog, secrets }: Rotation): Promise<void> {
  const server = { id: CATALOG, home: join(config.dataDir, 'catalog'), socketDir: embeddedSocketDir(config.runtimeDir) }
  await renewPasswords(config, server, secrets.stores)
  await setProxyPassword(catalog, await scramVerifier(secrets.proxyPassword()))
}
