import { statfs } from 'node:fs/promises'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { cloneKindOf } from '../host/clone_kind.ts'
import { homeOf, layoutOf } from '../host/layout.ts'
import { hasImage, placeOf } from './image/place.ts'
import { freeBytes, trimmedBytes } from './image/room.ts'
import { spaceOf } from './image/mount.ts'
import { runTool } from './image/tool.ts'
import { storedIds } from './remove.ts'

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
  } | null
  /** The disk of the data directory. */
  readonly disk: { readonly bytes: number; readonly free_bytes: number }
  readonly stores: readonly StoreSpace[]
}

export interface StoreSpace {
  readonly id: string
  /** Of all files. */
  readonly apparent_bytes: number
  /** Of their blocks, shared ones included. */
  readonly real_bytes: number
  /** Of blocks that no other file shares, which its deletion frees. Null: the filesystem does not tell. */
  readonly own_bytes: number | null
}

/** Reads the extents of all stores. Their image must be mounted. */
export async function reportStores(dataDir: string): Promise<StorageReport> {
  const place = placeOf(dataDir)
  const layout = layoutOf({ dataDir, runtimeDir: dataDir })
  const mode = await cloneModeOf(dataDir)
  const { bsize, blocks, bavail } = await statfs(dataDir)
  return {
    mode,
    advice: mode === 'copy' ? (adviceFor(dataDir) ?? null) : null,
    image: hasImage(place)
      ? {
          bytes: spaceOf(place.image).bytes,
          free_bytes: await freeBytes(place.mountPoint),
          reserved_bytes: spaceOf(place.image).reserved,
          trimmed_bytes: trimmedBytes(place),
        }
      : null,
    disk: { bytes: bsize * blocks, free_bytes: bsize * bavail },
    stores: await spaceOfStores((await storedIds(layout)).map((id) => ({ id, home: homeOf(layout, id) }))),
  }
}

/** How stores of a data directory are cloned. Errors: the system's. */
export async function cloneModeOf(dataDir: string): Promise<CloneMode> {
  const { branches } = layoutOf({ dataDir, runtimeDir: dataDir })
  const kind = await cloneKindOf(existsSync(branches) ? branches : dataDir)
  return kind === 'reflink' && hasImage(placeOf(dataDir)) ? 'image' : kind
}

const EXTENTS = readFileSync(fileURLToPath(new URL('extents.pl', import.meta.url)), 'utf8')

async function spaceOfStores(stores: readonly { id: string; home: string }[]): Promise<StoreSpace[]> {
  if (process.platform !== 'linux' || stores.length === 0) return []
  const lines = await runTool('perl', ['-e', EXTENTS], stores.map(({ home }) => `${home}\n`).join(''))
  return lines
    .trim()
    .split('\n')
    .map((line, index) => {
      const [bytes, real, own] = line.split(' ')
      return {
        id: stores[index]?.id ?? '',
        apparent_bytes: Number(bytes),
        real_bytes: Number(real),
        own_bytes: own === '-' ? null : Number(own),
      }
    })
}

/** How the operator of a data directory gets clones where files are copied; undefined where no image can be made. */
export function adviceFor(dataDir: string): string | undefined {
  if (process.platform !== 'linux') return undefined
  return process.getuid?.() === 0
    ? `To have branches cloned, end Neap and run: npx neap storage init --data-dir ${dataDir}`
    : `To have branches cloned, end Neap and run: sudo npx neap storage init --data-dir ${dataDir}`
}
