import { mkdir, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory } from '../durable_file.ts'
import type { Progress } from '../host/fence.ts'
import { baseOf } from './base_place.ts'
import { fillDataDirectory, type FillOptions } from './clone.ts'
import { discardSpare, isCurrent, removeSpares, sparesOf, unfinishedSpareOf } from './spare.ts'

/** The spares that a store is to have. */
export interface WantedSpares {
  /** The number of the base that is to have spares; undefined: no base is. */
  readonly base: number | undefined
  /** Whether its data are to have spares, on which no server runs. */
  readonly ofData: boolean
  /** How many, of each. */
  readonly count: number
}

/** Of a base, which the next one replaces while its store runs. */
const MAX_OF_BASE = 2

/** Makes the wanted spares of a store, and removes its other spares. `pending`: call again. */
export async function tendSpares(home: string, wanted: WantedSpares, options: FillOptions): Promise<Progress> {
  if (!wanted.ofData) await removeSpares(home)
  if (wanted.base !== undefined) {
    const count = Math.min(MAX_OF_BASE, wanted.count)
    if ((await makeSpares(baseOf(home, wanted.base), count, options)) === 'pending') return 'pending'
  }
  // Not before: a branch may be made of them meanwhile.
  const bases = await readdir(join(home, 'bases')).catch(() => [])
  for (const name of bases) if (name !== String(wanted.base)) await removeSpares(join(home, 'bases', name))
  return wanted.ofData ? makeSpares(home, wanted.count, options) : 'done'
}

async function makeSpares(source: string, count: number, options: FillOptions): Promise<Progress> {
  for (const [index, spare] of sparesOf(source).entries()) {
    if (index >= count) await discardSpare(spare)
    else if (!(await isCurrent(spare, source)) && (await makeSpare(source, spare, options)) === 'pending')
      return 'pending'
  }
  return 'done'
}

async function makeSpare(source: string, spare: string, options: FillOptions): Promise<Progress> {
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
