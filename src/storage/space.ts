import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { spawnGivingWay } from '../host/give_way.ts'
import { homeOf, type Layout } from '../host/layout.ts'
import { runTool } from './image/tool.ts'
import { MAX_BYTES } from './measure.ts'

/** The space of a store in bytes. */
export interface StoreSpace {
  readonly id: string
  /** Of all files. */
  readonly apparent_bytes: number
  /** Of their blocks, shared ones included. */
  readonly real_bytes: number
  /** Of the blocks that no other store and no template has. Null: the filesystem does not tell. */
  readonly own_bytes: number | null
  /** Of those, the ones of its history alone. */
  readonly history_bytes: number | null
  /** False where its project has too many extents: then its own blocks are at least so many. */
  readonly is_exact: boolean
}

/** The space of a project's stores on a host, in bytes. */
export interface ProjectBytes {
  readonly id: string
  readonly apparent_bytes: number
  /** The blocks that no store of another project has, each counted once. */
  readonly real_bytes: number
  /** Of those, the ones that several of its stores share. */
  readonly shared_bytes: number
}

/** The space of stores, in the order in which they were given, and of their projects. */
export interface MeasuredSpace {
  readonly stores: readonly StoreSpace[]
  readonly projects: readonly ProjectBytes[]
  /** The blocks of templates and of removed stores, also those that stores share, each counted once. */
  readonly other_bytes: number
}

/** All stores that a project has on a host. */
export interface StoresOfProject {
  readonly id: string
  readonly stores: readonly string[]
}

const MEASURE = readFileSync(fileURLToPath(new URL('space.pl', import.meta.url)), 'utf8')

/**
 * Reads the extents of all files of projects' stores, in a process of its own: only stores of one project share blocks,
 * apart from those of templates. Errors: the system's.
 * @param isCopied whether stores are made by a copy: asked where the filesystem does not tell which blocks are shared
 * @param quietly at a low priority, with so much of a core (0.2); undefined: at once
 */
export async function measureSpace(
  layout: Layout,
  isCopied: () => Promise<boolean>,
  projects: readonly StoresOfProject[],
  quietly?: number,
): Promise<MeasuredSpace> {
  if (process.platform !== 'linux') return { stores: [], projects: [], other_bytes: 0 }
  const others = (await Promise.all([layout.templates, layout.trash].map(namesIn))).flat()
  const input = [
    ...projects.flatMap(({ stores }, index) => stores.map((id) => `${index + 1} ${homeOf(layout, id)}`)),
    ...others.map((path) => `0 ${path}`),
  ]
  const text = input.map((line) => `${line}\n`).join('')
  const output =
    quietly === undefined
      ? await runTool('perl', ['-e', MEASURE], text)
      : await runTool('perl', ['-e', MEASURE, String(quietly)], text, spawnGivingWay)
  const lines = output.trim().split('\n')
  const sharedOf = lines.map((line) => /^project (\d+) (\d+)$/.exec(line))
  const shared = new Map(sharedOf.map((found) => [Number(found?.[1]), Number(found?.[2])]))
  const ids = projects.flatMap(({ stores }) => stores)
  const isSilent = lines.slice(0, ids.length).some((line) => line.includes('-'))
  const ownsAll = isSilent && (await isCopied())
  const stores = ids.map((id, index) => spaceIn(id, lines[index] ?? '', ownsAll))
  let from = 0
  return {
    stores,
    projects: projects.map(({ id, stores: { length } }, index) =>
      sumOf(id, stores.slice(from, (from += length)), shared.get(index + 1) ?? 0),
    ),
    other_bytes: Number(/^other (\d+)$/.exec(lines.at(-1) ?? '')?.[1] ?? 0),
  }
}

function sumOf(id: string, stores: readonly StoreSpace[], shared_bytes: number): ProjectBytes {
  const sum = (bytesOf: (store: StoreSpace) => number) => stores.reduce((total, store) => total + bytesOf(store), 0)
  return {
    id,
    apparent_bytes: sum(({ apparent_bytes }) => apparent_bytes),
    real_bytes: shared_bytes + sum(({ own_bytes, real_bytes }) => own_bytes ?? real_bytes),
    shared_bytes,
  }
}

function spaceIn(id: string, line: string, ownsAll: boolean): StoreSpace {
  const [apparent, real, own, history, exact] = line.split(' ')
  // Copied files share no blocks.
  const silent = ownsAll ? Number(real) : null
  return {
    id,
    apparent_bytes: Math.min(MAX_BYTES, Number(apparent)),
    real_bytes: Number(real),
    own_bytes: own === '-' ? silent : Number(own),
    history_bytes: history === '-' ? null : Number(history),
    is_exact: exact === '1',
  }
}

async function namesIn(directory: string): Promise<string[]> {
  return (await readdir(directory).catch(() => [])).map((name) => join(directory, name))
}
