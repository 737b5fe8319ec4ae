/*
 * A packed store has one compressed file in place of its data directory:
 *
 *   pgdata ──packed, compared, synced──▶ pgdata, data.tar.zst ──▶ data.tar.zst, remains of pgdata ──▶ data.tar.zst
 *   data.tar.zst ──unpacked, synced──▶ data.tar.zst, pgdata ──▶ pgdata
 *
 * Either is renamed into its place when it is whole, so where there is a `pgdata` it is whole, and counts.
 */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fenceText, isEffectCode, outcomeOf, runEffect } from '../host/effect.ts'
import { ConfigurationError } from '../host/failures.ts'
import type { Fence, Progress } from '../host/fence.ts'
import { waitStopped } from '../host/server_lock.ts'
import { programBeside, runDetached, throwNoted } from './detached.ts'

const PACKER = programBeside(import.meta.url, 'packer')
/** A packer that is told to end takes less, in seconds. */
const END_SECONDS = 0.5

export const PACKED_FILE = 'data.tar.zst'
/** What a packer that was killed may leave. */
export const PACKING_FILE = 'data.tar.zst.making'
export const PACKED_DATA = 'pgdata.packed'
export const UNPACKING = 'unpacking'
export const PACK_ERROR = 'pack.error'
/** The bytes that the data take on the disk when they are unpacked. */
export const PACKED_BYTES = 'data.bytes'

interface PackOptions {
  readonly logFile: string
  readonly cacheDir: string
  readonly fence: Fence
}

/** Whether a store has its packed data, and no data directory. */
export const isPacked = (home: string): boolean =>
  !existsSync(join(home, 'pgdata')) && existsSync(join(home, PACKED_FILE))

/**
 * Packs the data directory of a store by a program of its own, or joins one that does; `pending` while it runs.
 * @throws FencedError when a newer attempt acted on this store; ConfigurationError with the packer's message
 */
export async function packStore(home: string, options: PackOptions): Promise<Progress> {
  const isDone = () => isPacked(home) && !existsSync(join(home, PACKED_DATA))
  return isDone() ? 'done' : runPacker(home, 'pack', isDone, options)
}

/**
 * Unpacks the data directory of a store, as `packStore`. A packing that has not ended is ended: its data are whole.
 * @throws FencedError; the packer's error
 */
export async function unpackStore(home: string, options: PackOptions): Promise<Progress> {
  const isDone = () => existsSync(join(home, 'pgdata'))
  if (!isDone()) return runPacker(home, 'unpack', isDone, options)
  await runEffect(['end', home])
  if ((await waitStopped(home, END_SECONDS)) === 'pending') return 'pending'
  // Its last step may have been under way.
  if (!isDone()) return 'pending'
  for (const left of [PACKED_FILE, PACKING_FILE, PACKED_BYTES, PACKED_DATA, UNPACKING, PACK_ERROR])
    await rm(join(home, left), { recursive: true, force: true })
  return 'done'
}

async function runPacker(
  home: string,
  what: 'pack' | 'unpack',
  isDone: () => boolean,
  { logFile, cacheDir, fence }: PackOptions,
): Promise<Progress> {
  throwFailure(home, what)
  const args = ['pack', home, fenceText(fence), what === 'pack' ? 'yes' : 'no', ...PACKER, what, home]
  const code = await runDetached({ args, logFile, cacheDir })
  if (code === 'late') return 'pending'
  if (isEffectCode(code) && outcomeOf(code, '') === 'gone') throw new Error('The branch was removed.')
  throwFailure(home, what)
  return isDone() && (await waitStopped(home, 0)) === 'done' ? 'done' : 'pending'
}

/** Data that cannot be packed stay as they are; unpacking is tried again, as once the disk has room. */
const throwFailure = (home: string, what: 'pack' | 'unpack'): void =>
  throwNoted(join(home, PACK_ERROR), what === 'pack' ? ConfigurationError : Error)
