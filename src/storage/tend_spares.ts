import { mkdir, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from '../host/durable.ts'
import type { Progress } from '../host/fence.ts'
import { baseOf } from './base_place.ts'
import { fillDataDirectory, type FillOptions } from './clone.ts'
import { discardSpare, isCurrent, removeSpare, spareOf, unfinishedSpareOf } from './spare.ts'

/** The spares that a store is to have. */
export interface WantedSpares {
  /** The number of the base that is to have a spare; undefined: no base is. */
  readonly base: number | undefined
  /** Whether its data are to have a spare, on which no server runs. */
  readonly ofData: boolean
}

/** Makes the wanted spares of a store, and removes its other spares. `pending`: call again. */
export async function tendSpares(home: string, wanted: WantedSpares, options: FillOptions): Promise<Progress> {
  if (!wanted.ofData) await removeSpare(home)
  if (wanted.base !== undefined && (await makeSpare(baseOf(home, wanted.base), options)) === 'pending') return 'pending'
  // Not before: a branch may be made of it meanwhile.
  const bases = await readdir(join(home, 'bases')).catch(() => [])
  for (const name of bases) if (name !== String(wanted.base)) await removeSpare(join(home, 'bases', name))
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
