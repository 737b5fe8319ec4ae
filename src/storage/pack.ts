/*
 * A packed store has one compressed file in place of its data directory:
 *
 *   pgdata ──packed, compared, synced──▶ pgdata, data.tar.zst ──▶ data.tar.zst, remains of pgdata ──▶ data.tar.zst
 *   data.tar.zst ──unpacked, synced──▶ data.tar.zst, pgdata ──▶ pgdata
 *
 * Either is renamed into its place when it is whole, so where there is a `pgdata` it is whole, and counts.
 */
import { closeSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fenceText, isEffectCode, outcomeOf, runEffect, spawnEffect } from '../host/effect.ts'
import type { Fence, Progress } from '../host/fence.ts'
import { openLog } from '../host/logs.ts'
import { waitStopped } from '../host/server_lock.ts'
import { withTimeout } from '../race.ts'

const PACKER = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? 'packer.ts' : 'packer.js', import.meta.url))
/** Small stores take less. */
const CAP_SECONDS = 0.5

export const PACKED_FILE = 'data.tar.zst'
/** What a packer that was killed may leave. */
export const PACKING_FILE = 'data.tar.zst.making'
export const PACKED_DATA = 'pgdata.packed'
export const UNPACKING = 'unpacking'
export const PACK_ERROR = 'pack.error'

interface PackOptions {
  readonly logFile: string
  readonly cacheDir: string
  readonly fence: Fence
}

/** Whether the data of a store are packed, and nothing else is there. */
export const isPacked = (home: string): boolean =>
  !existsSync(join(home, 'pgdata')) && existsSync(join(home, PACKED_FILE))

/**
 * Packs the data directory of a store by a program of its own, or joins one that does; `pending` while it runs.
 * @throws FencedError when a newer attempt acted on this store; the packer's error
 */
export async function packStore(home: string, options: PackOptions): Promise<Progress> {
  const isDone = () => isPacked(home) && !existsSync(join(home, PACKED_DATA))
  return isDone() ? 'done' : runPacker(home, 'pack', isDone, options)
}

/**
 * Unpacks the data directory of a store, as `packStore`. A packing that has not ended is ended: its data are whole.
 * @throws as `packStore`
 */
export async function unpackStore(home: string, options: PackOptions): Promise<Progress> {
  const isDone = () => existsSync(join(home, 'pgdata'))
  if (!isDone()) return runPacker(home, 'unpack', isDone, options)
  await runEffect(['end', home])
  if ((await waitStopped(home, CAP_SECONDS)) === 'pending') return 'pending'
  // Its last step may have been under way.
  if (!isDone()) return 'pending'
  for (const left of [PACKED_FILE, PACKING_FILE, PACKED_DATA, UNPACKING, PACK_ERROR])
    await rm(join(home, left), { recursive: true, force: true })
  return 'done'
}

async function runPacker(
  home: string,
  what: 'pack' | 'unpack',
  isDone: () => boolean,
  { logFile, cacheDir, fence }: PackOptions,
): Promise<Progress> {
  throwFailure(home)
  const log = openLog(logFile)
  const program = [process.execPath, '--disable-warning=ExperimentalWarning', PACKER, what, home]
  const args = ['pack', home, fenceText(fence), what === 'pack' ? 'yes' : 'no', ...program]
  const child = spawnEffect(args, log.file, { NODE_COMPILE_CACHE: cacheDir })
  child.stdin?.end()
  closeSync(log.file)
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', resolve)
  })
  child.unref()
  const code = await withTimeout(ended, CAP_SECONDS * 1000, 'late')
  if (code === 'late') return 'pending'
  if (isEffectCode(code) && outcomeOf(code, '') === 'gone') throw new Error('The branch was removed.')
  throwFailure(home)
  return isDone() && (await waitStopped(home, 0)) === 'done' ? 'done' : 'pending'
}

function throwFailure(home: string): void {
  const failure = join(home, PACK_ERROR)
  if (!existsSync(failure)) return
  const message = readFileSync(failure, 'utf8')
  rmSync(failure, { force: true })
  throw new Error(message)
}
