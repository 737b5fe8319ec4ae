import { mkdir, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from '../host/durable.ts'
import type { Progress } from '../host/fence.ts'
import { baseOf } from './base.ts'
import { fillDataDirectory, type FillOptions } from './clone.ts'
import { discardSpare, isCurrent, removeSpare, spareOf, unfinishedSpareOf } from './spare.ts'

/** The spares that a store is to have. */
export interface WantedSpares {
  /** The number of its base that is to have one; undefined: none is. */
  readonly base: number | undefined
  /** Whether there is to be one of its data: no server runs on them. */
  readonly ofData: boolean
}

/** Makes the spares of a store that are wanted, and removes those that are not. `pending`: call again. */
export async function tendSpares(home: string, wanted: WantedSpares, options: FillOptions): Promise<Progress> {
  const bases = await readdir(join(home, 'bases')).catch(() => [])
  for (const name of bases) if (name !== String(wanted.base)) await removeSpare(join(home, 'bases', name))
  if (!wanted.ofData) await removeSpare(home)
  if (wanted.base !== undefined && (await makeSpare(baseOf(home, wanted.base), options)) === 'pending') return 'pending'
  return wanted.ofData ? makeSpare(home, options) : 'done'
}

async function makeSpare(source: string, options: FillOptions): Promise<Progress> {
  const spare = spareOf(source)
  if (await isCurrent(spare, source)) return 'done'
  const making = unfinishedSpareOf(source)
  // Not recursive: a source that is removed meanwhile stays removed.
  await mkdir(making, { mode: 0o710 }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  })
  if ((await fillDataDirectory({ home: making, from: source, isSpare: true }, options)) === 'pending') return 'pending'
  // A server may have run since an earlier call completed it.
  if (!(await isCurrent(making, source))) {
    await discardSpare(making)
    return 'pending'
  }
  await discardSpare(spare)
  await rename(making, spare)
  await syncDirectory(source)
  return 'done'
}
