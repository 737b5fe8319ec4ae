import { statfs } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { cloneKindOf } from '../host/clone_kind.ts'
import { layoutOf } from '../host/layout.ts'
import { hasImage, placeOf } from './image/place.ts'
import { spaceOf } from './image/mount.ts'
import { readImage } from './image/tend.ts'
import { storedIds } from './remove.ts'
import { measureSpace, type StoreSpace } from './space.ts'

/** By sharing blocks, on the filesystem of the data directory or in its image; or byte by byte. */
export type CloneMode = 'reflink' | 'image' | 'copy'

/** How stores of a data directory are cloned, and their space. */
export interface StorageReport {
  readonly mode: CloneMode
  /** How to have clones; null where there are. */
  readonly advice: string | null
  readonly image: {
    readonly bytes: number
    readonly free_bytes: number
    /** Its blocks on the disk below, and those that a trim gave back. */
    readonly reserved_bytes: number
    readonly trimmed_bytes: number
    /** By how much it may grow by itself, and why it does not although it is short of room. */
    readonly growable_bytes: number
    readonly problem: string | null
  } | null
  /** The disk of the data directory. */
  readonly disk: { readonly bytes: number; readonly free_bytes: number }
  /** The blocks of all stores and templates, each counted once. */
  readonly real_bytes: number
  readonly stores: readonly StoreSpace[]
}

/**
 * Reads the extents of all stores, now. Their image must be mounted.
 * @param most the bytes that the image may take of the disk below by itself
 */
export async function reportStores(dataDir: string, most: number | undefined): Promise<StorageReport> {
  const place = placeOf(dataDir)
  const layout = layoutOf({ dataDir, runtimeDir: dataDir })
  const mode = await cloneModeOf(dataDir)
  const { bsize, blocks, bavail } = await statfs(dataDir)
  const image = await readImage(place, most)
  // The catalog knows the projects of stores: they matter only to blocks that a project's stores share.
  const projects = [{ id: '', stores: await storedIds(layout) }]
  const space = await measureSpace(layout, async () => mode === 'copy', projects)
  return {
    mode,
    advice: mode === 'copy' ? (adviceFor(dataDir) ?? null) : null,
    image: image
      ? { ...image, bytes: image.bytes + image.trimmed_bytes, reserved_bytes: spaceOf(place.image).reserved }
      : null,
    disk: { bytes: bsize * blocks, free_bytes: bsize * bavail },
    real_bytes: space.projects.reduce((sum, { real_bytes }) => sum + real_bytes, space.other_bytes),
    stores: space.stores,
  }
}

/** How stores of a data directory are cloned. Errors: the system's. */
export async function cloneModeOf(dataDir: string): Promise<CloneMode> {
  const { removed } = layoutOf({ dataDir, runtimeDir: dataDir })
  const kind = await cloneKindOf(existsSync(removed) ? removed : dataDir)
  return kind === 'reflink' && hasImage(placeOf(dataDir)) ? 'image' : kind
}

/** How the operator of a data directory gets clones where files are copied; undefined where no image can be made. */
export function adviceFor(dataDir: string): string | undefined {
  if (process.platform !== 'linux') return undefined
  return process.getuid?.() === 0
    ? `To have branches cloned, end Neap and run: npx neap storage init --data-dir ${dataDir}`
    : `To have branches cloned, end Neap and run: sudo npx neap storage init --data-dir ${dataDir}`
}
